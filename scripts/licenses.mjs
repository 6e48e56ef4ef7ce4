import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./setup.mjs";

/** Copies the licences of the bundled packages, as the licences require. */
const bundled = JSON.parse(readFileSync(join(ROOT, "scripts/bundled.json"), "utf8"));
const texts = bundled.map((name) => {
  const folder = join(ROOT, "node_modules", name);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (file === undefined) throw new Error(`${name} has no licence file, so it cannot be bundled`);
  return `${name}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(ROOT, "dist/cli/LICENSES.txt"), texts.join("\n----\n\n"));
