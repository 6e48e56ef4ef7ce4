import { rmSync } from "node:fs";

// Chunks of an earlier build have other names and would be published with this one.
rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
