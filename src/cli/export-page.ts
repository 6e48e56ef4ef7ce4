import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { CliFailure } from "./terminal/failure.ts";

/** The file of `sluice export --html` before and after the log's lines. It loads nothing and runs its own script alone. */
export function readExportPage(session: string): readonly [string, string] {
  const folder = join(
    dirname(createRequire(import.meta.url).resolve("sluice/package.json")),
    "dist",
    "ui-export",
  );
  if (!existsSync(join(folder, "page.js")))
    throw new CliFailure("The page is not built. `npm run build` builds it.");
  const script = readFileSync(join(folder, "page.js"), "utf8").replaceAll("</script", String.raw`<\/script`);
  const style = readFileSync(join(folder, "page.css"), "utf8").replaceAll("</style", String.raw`<\/style`);
  const policy = `default-src 'none'; script-src '${digest(script)}'; style-src '${digest(style)}'; img-src data: blob:; base-uri 'none'; form-action 'none'`;
  const before = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>sluice</title>
<style>${style}</style>
</head>
<body>
<div id="page"></div>
<script type="application/json" id="log">
${toScriptText(JSON.stringify({ session }))}
`;
  return [before, `</script>\n<script>${script}</script>\n</body>\n</html>\n`];
}

/** JSON that cannot end the element it stands in: "<" occurs only within its strings. */
export function toScriptText(json: string): string {
  return json.replaceAll("<", String.raw`\u003c`);
}

function digest(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}
