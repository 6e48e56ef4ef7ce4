import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const run = promisify(execFile);

/** A program that asks a model of its own, and reads an MCP result of one number. */
const PROGRAM = `
import { createServer } from "node:http";
const parts = [{ text: "Hm.", thought: true }, { functionCall: { name: "x", args: { a: 1 } } }];
const answer = JSON.stringify({ candidates: [{ content: { parts } }], usageMetadata: { promptTokenCount: 3 } });
let asked = 0;
const server = createServer((request, response) => {
  request.resume();
  if (asked++ === 0) return response.writeHead(503).end();
  response.writeHead(200, { "content-type": "text/event-stream" }).end(\`data: \${answer}\\n\\n\`);
});
server.listen(0, "127.0.0.1", async () => {
  const url = \`http://127.0.0.1:\${server.address().port}/v1beta/models/g:streamGenerateContent?alt=sse\`;
  const results = [{ functionResponse: { name: "y", id: "1", response: { output: "z" } } }];
  const body = JSON.stringify({ contents: [{ parts: results }] });
  for (const _ of [1, 2]) await (await fetch(url, { method: "POST", body })).text();
  console.log(JSON.stringify(JSON.parse('{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"42"}]}}')));
  server.close();
});
`;

describe("the prelude of Gemini CLI, as it is built", () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-prelude-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it("is self-contained, and sees the requests", async () => {
    const bundle = await rolldown({
      input: join(import.meta.dirname, "../../../src/harness/gemini/prelude.ts"),
    });
    const file = join(folder, "prelude-maker.mjs");
    await bundle.write({ file, format: "esm", minify: true });
    await bundle.close();
    const { preludeFile } = (await import(file)) as typeof import("../../../src/harness/gemini/prelude.ts");
    // A part that throws is silent by design. The test makes it loud.
    const content = preludeFile().content.replaceAll("catch {}", "catch (error) { console.error(error); }");
    await writeFile(join(folder, "prelude.mjs"), content);
    await writeFile(join(folder, "program.mjs"), PROGRAM);
    const { stdout, stderr } = await run(process.execPath, [
      "--import",
      join(folder, "prelude.mjs"),
      join(folder, "program.mjs"),
    ]);
    expect(stderr).toBe("");
    const said = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(said.map(({ params }) => params?.event)).toEqual([
      "request",
      "failed",
      "request",
      "words",
      "call",
      "response",
      undefined,
    ]);
    expect(said[0].params).toMatchObject({ model: "g", results: [{ name: "y", id: "1" }] });
    expect(said.at(-1).result.structuredContent).toEqual({});
  });
});
