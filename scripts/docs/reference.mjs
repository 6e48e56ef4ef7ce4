import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { withPart } from "../architecture.mjs";
import { ROOT } from "../source-graph.mjs";
import { toCliReference } from "./cli-reference.mjs";
import { toErrorReference } from "./error-reference.mjs";
import { toHttpReference } from "./http-reference.mjs";

/** The generated parts of the pages, from the built program, openapi.json and the table of errors. */
export function readReference(errors) {
  const openapi = JSON.parse(readFileSync(join(ROOT, "openapi.json"), "utf8"));
  return [
    { file: "docs/cli.md", name: "commands", text: toCliReference() },
    { file: "docs/http.md", name: "operations", text: toHttpReference(openapi) },
    { file: "docs/troubleshooting.md", name: "errors", text: toErrorReference(errors) },
  ];
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { ERRORS } = await import(join(ROOT, "dist", "contract", "index.js"));
  for (const part of readReference(ERRORS)) {
    const path = join(ROOT, part.file);
    writeFileSync(path, withPart(readFileSync(path, "utf8"), part));
  }
}
