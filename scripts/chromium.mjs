import { existsSync } from "node:fs";
import { findProgram, installDebian, say } from "./setup.mjs";

/** Where Debian's browser is; other systems have it elsewhere on PATH. */
const CHROMIUM = "/usr/bin/chromium";

/** Gets the browser that tests drive, where that takes no question; the tests that need it say so where it is missing. */
export async function ensureChromium() {
  if (existsSync(CHROMIUM) || findProgram("chromium")) return;
  if (process.getuid?.() !== 0 || !findProgram("apt-get")) return;
  say("installing chromium for the tests (apt-get) …");
  if (!(await installDebian(["chromium"]))) say("apt-get could not install chromium");
}
