// The client checks events with zod, which would make code from strings where it may. This page's rules forbid that: it need
// not try. Imported before the client, whose checks are made when it is loaded.
import { config } from "zod/v4";

config({ jitless: true });
