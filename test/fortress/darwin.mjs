import { createRequire } from "node:module";

// Loaded before sluice, so that all of it takes this for a system without /proc; but for the driver, which is this one's.
const require = createRequire(import.meta.url);
require("libsql");
require("libsql/promise");
Object.defineProperty(process, "platform", { value: "darwin" });
