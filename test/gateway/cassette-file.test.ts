import {
  appendFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CassetteLaunch } from "../../src/contract/process.ts";
import type { Exchange } from "../../src/gateway/cassette/format.ts";
import { compareShapes, maskRequest } from "../../src/gateway/cassette/mask.ts";
import { moveFolders, scrubChunks, scrubPatterns, withPatterns } from "../../src/gateway/cassette/scrub.ts";
import { openTape, type Tape } from "../../src/gateway/cassette/tape.ts";

let folder: string;
const tapes: Tape[] = [];
const file = (): string => join(folder, "t.jsonl");
const EXCHANGE: Exchange = {
  v: 1,
  wire: "anthropic",
  provider: "anthropic",
  key: "k",
  ordinal: 0,
  request: { method: "POST", path: "/v1/messages", body_sha256: "0", shape: {} },
  response: { status: 200, headers: { "content-type": ["text/event-stream"] }, chunks: [[1, "data: {}"]] },
};

describe("what a cassette hides", () => {
  it("leaves everything else as it was, byte for byte", () => {
    const bytes = ['data: {"a":"ü', '€ \\u00e9"}\r\n\r', "\n: ping\n\ndata: [DONE]\n\n"];
    const whole = Buffer.from(bytes.join(""));
    // Borders inside of characters.
    const chunks = [3, 13, 14, 30, whole.length].map((to, at, all): readonly [number, string, "base64"] => [
      at,
      whole.subarray(all[at - 1] ?? 0, to).toString("base64"),
      "base64",
    ]);
    const clean = scrubChunks(chunks, { scrub: withPatterns((given) => given), isStream: true });
    expect(clean).toEqual(chunks);
  });

  it.each([
    ["mail me at a.b+c@mail.example.org now", "mail me at user@example.com now"],
    ["git@github.com:o/r.git", "git@github.com:o/r.git"],
    ["npm i pkg@1.2.3 @scope/name", "npm i pkg@1.2.3 @scope/name"],
    [`AIza${"Sy1".repeat(12)}`, "[key]"],
    ["ghp_0123456789abcdefghijABCDEFGHIJ", "[key]"],
    ["AKIAIOSFODNN7EXAMPLE", "[key]"],
    ["task-based sk-learn", "task-based sk-learn"],
  ])("knows the pattern of %s", (text, expected) => expect(scrubPatterns(text)).toBe(expected));
});

const keyOf = (body: unknown, now = Date.parse("2026-11-18T12:00:00Z")): string =>
  maskRequest(
    { method: "POST", path: "/p", body: Buffer.from(JSON.stringify(body)) },
    { scrub: (b) => b, now },
  ).key;
const masked = (text: string) =>
  maskRequest({ method: "POST", path: "/p", body: Buffer.from(text) }, { scrub: (b) => b, now: 0 });
const shape = (name: string) => ({ messages: [{ [name]: "#1" }] });

describe("the key of a request", () => {
  it("depends on neither the day nor the order of fields, and on every other date and word", () => {
    const day = Date.parse("2026-12-03T12:00:00Z");
    expect(keyOf({ a: "Today's date is 2026-11-18.", b: 1 })).toBe(
      keyOf({ b: 1, a: "Today's date is 2026-12-03." }, day),
    );
    expect(keyOf("Today is Wednesday, November 18, 2026")).toBe(
      keyOf("Today is Thursday, December 3, 2026", day),
    );
    expect(keyOf("Wed Nov 18 2026")).toBe(keyOf("Thu Dec 03 2026", day));
    expect(keyOf("from 2020-01-01")).not.toBe(keyOf("from 2020-01-02"));
  });

  it("survives a body that is nested too deeply, or no JSON", () => {
    const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
    expect(masked(deep).key).not.toBe(masked("{").key);
    expect(compareShapes(masked("{").shape, masked("[").shape)?.path).toBe("/");
  });

  it("gives a name that an agent chose no place in an error", () => {
    expect(compareShapes(shape("the secret plan"), {})?.path).toBe("/messages");
    expect(compareShapes(shape("the secret plan"), { messages: [{}] })?.path).toBe("/messages/0/?");
  });
});

describe("a cassette's file", () => {
  const line = (): string => readFileSync(file(), "utf8");
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "cassette-file-"));
    const tape = openAnd({ mode: "record" });
    expect(tape.append(EXCHANGE)).toBe(true);
  });
  afterEach(() => {
    for (const tape of tapes.splice(0)) tape.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("loses a half line at its end, and nothing else", () => {
    const whole = line();
    appendFileSync(file(), whole.slice(0, 100));
    expect(openAnd({ mode: "replay" }).exchanges).toHaveLength(1);
    expect(openAnd({ mode: "auto" }).exchanges).toHaveLength(1);
    expect(line()).toBe(whole);
  });

  it.each([
    ["a damaged line", (text: string) => `${text}{"v":1,"wire":\n${text}`, /line 2 is no JSON/],
    [
      "a newer form",
      (text: string) => text + text.replace('"v":1', '"v":2'),
      /line 2 .*form that this version knows/,
    ],
    [
      "a wrong field",
      (text: string) => text + text.replace('"status":200', '"status":99'),
      /line 2 lacks a field/,
    ],
    [
      "a header that splits",
      (text: string) => text.replace('text/event-stream"', 'text/event-stream\\r\\nx: y"'),
      /line 1 lacks/,
    ],
    ["another file", () => "root:x:0:0:secret\n", /is no cassette/],
  ])("with %s is refused, and its text is not quoted", (_name, damage, expected) => {
    writeFileSync(file(), damage(line()));
    expect(() => openAnd({ mode: "replay" })).toThrow(expected);
    expect(() => openAnd({ mode: "auto" })).toThrow(expected);
    expect(() => openAnd({ mode: "replay" })).not.toThrow(/secret/);
  });

  it("is not reached by a link, in its place or above it", () => {
    const target = join(folder, "target.jsonl");
    symlinkSync(target, join(folder, "link.jsonl"));
    expect(() => openTape({ file: join(folder, "link.jsonl"), mode: "record" })).toThrow(/is a link/);
    expect(existsSync(target)).toBe(false);
    mkdirSync(join(folder, "real"));
    symlinkSync(join(folder, "real"), join(folder, "by"));
    expect(() => openTape({ file: join(folder, "by", "new.jsonl"), mode: "record" })).toThrow(/link/);
    mkdirSync(join(folder, "real", "deep"));
    expect(() => openTape({ file: join(folder, "by", "deep", "new.jsonl"), mode: "record" })).toThrow(
      /behind a link/,
    );
    linkSync(file(), join(folder, "second.jsonl"));
    expect(() => openAnd({ mode: "auto" })).toThrow(/second name/);
    expect(() => openTape({ file: folder, mode: "replay" })).toThrow(/no plain file/);
    expect(() => openTape({ file: join(folder, "none"), mode: "replay" })).toThrow(/Record it first/);
  });

  function openAnd(launch: Pick<CassetteLaunch, "mode">): Tape {
    const tape = openTape({ file: file(), ...launch });
    tapes.push(tape);
    return tape;
  }
});

describe("the agent's folders", () => {
  const folders = [
    { here: "/home/user/.local/share/sluice/s 1/workspace", recorded: "/home/user/workspace" },
    { here: "/home/user/.local/share/sluice/s 1/home", recorded: "/home/user" },
  ];
  const move = (text: string, to: "recorded" | "here"): string =>
    moveFolders(folders, to)(Buffer.from(text)).toString();

  it("have the cassette's names in it, and those of this session in a replay", () => {
    const [workspace, home] = folders.map(({ here }) => here);
    const here = JSON.stringify({ text: `cd ${workspace}/src\n${home}/x "${workspace}"`, ä: `${home}.` });
    const recorded = move(here, "recorded");
    expect(JSON.parse(recorded)).toEqual({
      text: 'cd /home/user/workspace/src\n/home/user/x "/home/user/workspace"',
      ä: "/home/user.",
    });
    expect(move(recorded, "here")).toBe(here);
  });

  it("are no parts of other names", () => {
    for (const text of ["/home/users/x", "/mnt/home/user", "~/home/user", "/home/user-2"])
      expect(move(text, "here")).toBe(text);
  });
});
