"""For plugin authors: a pytest plugin, contract suites, and a store in memory."""
