import pytest

from transom_testing.memory_store import MemoryStore, MemoryStorePlugin
from transom_testing.store_contract import RECORDS, StoreContract, Thing, put


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


@pytest.mark.anyio
async def test_its_clock_can_be_set():
    store = MemoryStore()
    store.clock = lambda: 1234
    async with store.open(RECORDS):
        assert await store.transact("a", lambda tx: tx.now) == 1234


@pytest.mark.anyio
async def test_a_value_of_a_wrong_type_is_found_when_it_is_put():
    store = MemoryStore()
    async with store.open(RECORDS):
        with pytest.raises(Exception, match=r"Expected `int`.*rank"):
            await put(store, "a", Thing(id="x", rank="one"))
        assert await store.get("a", Thing, "x") is None


def test_its_plugin_offers_the_store_that_it_is_given():
    store = MemoryStore()
    assert MemoryStorePlugin(store=store).register_stores() == [store]
    assert MemoryStorePlugin().register_stores()[0].name == "memory"
