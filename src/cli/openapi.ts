import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { toOpenApi } from "../http/openapi/document.ts";

/** Writes the OpenAPI document to the path in argv if it changed. */
const [, , path] = process.argv;
if (path === undefined) {
  console.error("Usage: openapi PATH");
  process.exit(2);
}
const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
const { version } = JSON.parse(manifest) as { version: string };
const text = `${JSON.stringify(toOpenApi({ version }), null, 2)}\n`;
if (!existsSync(path) || readFileSync(path, "utf8") !== text) writeFileSync(path, text);
