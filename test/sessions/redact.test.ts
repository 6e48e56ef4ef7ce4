import * as fc from "fast-check";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createRedactor, RedactedStream } from "../../src/sessions/secrets/redact.ts";
import { readStderrLines, toStderr } from "../../src/spool/stderr.ts";
import { ofType, openEngine, readAll, say, waitFor } from "../support/engine.ts";
import { END, factAgent, tell } from "./fact-agent.ts";

/** Letters that occur twice in a secret, escapes, and characters of several bytes. */
const secrets = fc.string({
  unit: fc.constantFrom("a", "b", '"', "\\", "/", "é", "𝄞", "-", "7"),
  minLength: 6,
  maxLength: 40,
});
const words = fc.string({ unit: fc.constantFrom("a", "b", "x", " ", "é", "7"), maxLength: 30 });

/** The text may show a short part of the secret, and never half of it. */
function expectHidden(text: string, secret: string): void {
  const letters = [...secret];
  const length = Math.max(6, Math.ceil(letters.length / 2));
  for (let at = 0; at + length <= letters.length; at += 1) {
    const part = letters.slice(at, at + length).join("");
    expect(text.includes(part), `${JSON.stringify(part)} of ${JSON.stringify(secret)} in ${text}`).toBe(
      false,
    );
  }
}

/** Texts that contain a part of the secret by chance are not test cases. */
const isTelling = (secret: string, ...texts: string[]): boolean => {
  try {
    for (const text of texts) expectHidden(text, secret);
    return true;
  } catch {
    return false;
  }
};

/** Each character as its code, as JSON allows. */
const veil = (text: string): string =>
  [...text]
    .map((char) => (char.length > 1 ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`))
    .join("");

/** `sh` that prints a text without a newline on stderr and ends the turn once it may have been read. */
const done = (text: string): string => `printf %s '${text}' >&2; sleep 0.3; ${tell(END)}`;

describe("a secret", () => {
  it("may be one letter many times, in an output of that letter alone", () => {
    const redactor = createRedactor(new Map([["KEY", "aaaaaa"]]));
    const stream = new RedactedStream({ redactor, offset: 0 });
    const pieces = [
      ...stream.take(Buffer.from("a".repeat(1_000_000)), { isLast: false }),
      ...stream.take(Buffer.from("."), { isLast: true }),
    ];
    expect(pieces.map(({ text }) => text).join("|")).not.toContain("aaaaaa");
    expect(pieces.at(-1)).toMatchObject({ offset: 1_000_001 });
  });

  it("is in no piece of a stream, wherever it is cut", () => {
    fc.assert(
      fc.property(secrets, words, words, fc.array(fc.nat({ max: 120 }), { maxLength: 6 }), (...given) => {
        const [secret, before, after, cuts] = given;
        // The surrounding text must not complete another part of it.
        const [left, right] = [`${before}_`, `_${after}`];
        fc.pre(isTelling(secret, left, right));
        const bytes = Buffer.from(left + secret + right + secret + right);
        const stream = new RedactedStream({
          redactor: createRedactor(new Map([["KEY", secret]])),
          offset: 0,
        });
        const places = [...new Set([0, ...cuts.map((cut) => cut % bytes.length), bytes.length])];
        places.sort((a, b) => a - b);
        const pieces = places
          .slice(1)
          .flatMap((end, index) =>
            stream.take(bytes.subarray(places[index], end), { isLast: end === bytes.length }),
          );
        for (const { text } of pieces) expectHidden(text, secret);
        const told = pieces.map(({ text }) => text).join("");
        expect(told).toBe(`${left}[redacted:KEY]${right}[redacted:KEY]${right}`);
      }),
      { numRuns: 500 },
    );
  });

  it("is in no string of a line of JSON, however it is escaped, and JSON stays JSON", () => {
    fc.assert(
      fc.property(
        secrets,
        words,
        fc.constantFrom("plain", "veiled", "nested", "slash"),
        fc.nat(),
        (...given) => {
          const [secret, around, how, number] = given;
          const text = `${around}_${secret}_${around}`;
          fc.pre(isTelling(secret, `${around}_`, `_${around}`));
          const plain = JSON.stringify(text).slice(1, -1);
          const forms = {
            plain,
            veiled: veil(text),
            nested: JSON.stringify(JSON.stringify({ text })).slice(1, -1),
            slash: plain.replaceAll("/", "\\/"),
          };
          const line = `{"n": ${number}, "f": 1.0, "a" :["${forms[how]}", {"b":"${around}"}]}`;
          const clean = createRedactor(new Map([["KEY", secret]])).line(line);
          const value = JSON.parse(clean) as { n: number; a: [string, { b: string }] };
          const said = how === "nested" ? (JSON.parse(value.a[0]) as { text: string }).text : value.a[0];
          expect(said).toBe(`${around}_[redacted:KEY]_${around}`);
          expect([value.n, value.a[1].b]).toEqual([number, around]);
          expect(clean).toContain('"f": 1.0');
        },
      ),
      { numRuns: 500 },
    );
  });

  it("of digits is redacted in strings and plain text, and not in numbers and keys", () => {
    const { line } = createRedactor(new Map([["MAX_TOKENS", "200000"]]));
    expect(line('{"limit":200000,"200000":1,"words":"of 200000"}')).toBe(
      '{"limit":200000,"200000":1,"words":"of [redacted:MAX_TOKENS]"}',
    );
    expect(line('{"limit":200000')).toBe('{"limit":[redacted:MAX_TOKENS]');
    expect(line("200000 tokens")).toBe("[redacted:MAX_TOKENS] tokens");
  });

  it("that is a word of the agent's protocol leaves the protocol alone", () => {
    const { line } = createRedactor(new Map([["KEYRING_BACKEND", "result"]]));
    expect(line('{"type":"result","subtype" : "tool_result","result":"result","list":["result"]}')).toBe(
      '{"type":"result","subtype" : "tool_result","result":"[redacted:KEYRING_BACKEND]","list":["[redacted:KEYRING_BACKEND]"]}',
    );
    expect(line('{"type":["result","result"],"status":"result 1"}')).toBe(
      '{"type":["[redacted:KEYRING_BACKEND]","[redacted:KEYRING_BACKEND]"],"status":"[redacted:KEYRING_BACKEND] 1"}',
    );
    const key = createRedactor(new Map([["API_KEY", "sk-0123456789"]]));
    expect(key.line('{"type":"sk-0123456789"}')).toBe('{"type":"[redacted:API_KEY]"}');
  });

  it("is not cut in two with a long line of stderr", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-stderr-"));
    const secret = "sk-0123456789abcdefghijklmnopqrstuvwxyz";
    const redactor = createRedactor(new Map([["KEY", secret]]));
    for (let before = 4_050; before <= 4_100; before += 1) {
      await writeFile(join(folder, "err"), `${"x".repeat(before)}${secret}${"y".repeat(9_000)}\n`);
      expectHidden(
        toStderr(await readStderrLines(join(folder, "err"), redactor.reach), redactor).head ?? "",
        secret,
      );
    }
    await rm(folder, { recursive: true });
  });

  it("on stderr across the end of a turn is redacted as one", async () => {
    const secret = "sk-0123456789abcdef";
    const agent = factAgent(
      `echo ready; turn=0; while read -r line; do case $line in prompt*) turn=$((turn+1))
       if [ $turn = 1 ]; then ${done(`first ${secret.slice(0, 12)}`)}\nelse ${done(`${secret.slice(12)} second`)}\nfi ;; esac; done`,
    );
    const test = await openEngine({ harnesses: [agent], defaultSandbox: "local" });
    try {
      const env = { DEPLOY_TOKEN: secret, MAX_CONTEXT_TOKENS: "200000" };
      await test.engine.create("s", { agent: "facts", echo: true, env });
      for (const text of ["one", "two"]) {
        const { after } = await say(test.engine, "s", text);
        await waitFor(test.log, "s", "turn.ended", { after });
      }
      await test.engine.terminate("s");
      const told = ofType(await readAll(test.log, "s"), "process.output").filter(
        ({ data }) => data.stream === "stderr",
      );
      for (const { data } of told) expectHidden(data.text, secret);
      expect(told.map(({ data }) => data.text).join("")).toBe("first [redacted:DEPLOY_TOKEN] second");
    } finally {
      await test.close();
    }
  }, 60_000);

  it("that is a word of the agent's protocol does not keep a turn from its end", async () => {
    const test = await openEngine({ defaultSandbox: "local" });
    try {
      await test.engine.create("s", { agent: "scripted", env: { KEYRING_BACKEND: "turn.ended" } });
      await say(test.engine, "s", '#script [{"say":"a turn.ended"}]');
      const ended = await waitFor(test.log, "s", "turn.ended");
      expect(ended.data.status).toBe("completed");
      expect(ofType(await readAll(test.log, "s"), "agent.unparsed")).toEqual([]);
    } finally {
      await test.close();
    }
  }, 60_000);

  it("that equals a number does not disturb the decoder", async () => {
    const item = {
      item_id: "i1",
      kind: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "json", json: { max_tokens: 200_000, words: "up to 200000" } }],
    };
    const answer = `${tell({ type: "item.completed", data: { item } })}\n${tell(END)}`;
    const agent = factAgent(
      `echo ready; while read -r line; do case $line in prompt*) ${answer}\n;; esac; done`,
    );
    const test = await openEngine({ harnesses: [agent], defaultSandbox: "local" });
    try {
      await test.engine.create("s", { agent: "facts", env: { MAX_CONTEXT_TOKENS: "200000" } });
      await say(test.engine, "s", "hello");
      await waitFor(test.log, "s", "turn.ended");
      const said = ofType(await readAll(test.log, "s"), "item.completed").find(
        ({ data }) => data.item.item_id === "i1",
      );
      expect(said?.data.item.content).toEqual([
        { type: "json", json: { max_tokens: 200_000, words: "up to [redacted:MAX_CONTEXT_TOKENS]" } },
      ]);
    } finally {
      await test.close();
    }
  }, 60_000);
});
