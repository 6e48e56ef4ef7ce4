import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../src/contract/index.ts";
import type { Harness } from "../../src/harness/port.ts";
import { decodeRecording, parseRecording } from "../../src/harness/recording.ts";
import { scripted } from "../../src/harness/scripted/harness.ts";
import { sample } from "./scripted/sample.ts";

const row = (dir: string, raw: string, t = 0) => JSON.stringify({ t, dir, raw });

describe("a recording", () => {
  it("is read line by line, with its line numbers as positions", () => {
    const text = [
      row("meta", "{}"),
      "",
      row("out", "a"),
      "  ",
      row("exit", '{"code":null,"signal":"SIGKILL"}'),
      "",
    ].join("\n");
    expect(parseRecording(text)).toEqual([
      { dir: "meta", text: "{}", at: 1 },
      { dir: "out", text: "a", at: 3 },
      { dir: "exit", text: '{"code":null,"signal":"SIGKILL"}', at: 5, exit: { signal: "SIGKILL" } },
    ]);
  });

  it("may be cut in its last line", () => {
    expect(parseRecording(`${row("out", "a")}\n{"t":1,"dir":"ou`)).toHaveLength(1);
    expect(parseRecording("")).toEqual([]);
  });

  it("says which line is no line of a recording", () => {
    expect(() => parseRecording(`${row("out", "a")}\nnonsense\n${row("out", "b")}`)).toThrow(SluiceError);
    expect(() => parseRecording(`nonsense\n`)).toThrow(/^Line 1 of the recording/);
    expect(() => parseRecording(`{"dir":"sideways","raw":""}\n`)).toThrow(/^Line 1 of the recording/);
  });

  it("keeps the hash of bytes that are no text", () => {
    const bytes = Buffer.from([0x61, 0xff]);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    expect(parseRecording(b64(bytes))).toEqual([
      { dir: "out", text: "a\ufffd", at: 1, damage: { reason: "utf8", sha256, bytes: 2 } },
    ]);
    expect(parseRecording(b64(Buffer.from("é")))).toEqual([{ dir: "out", text: "é", at: 1 }]);
  });

  it("decodes into the facts of its lines, in order", () => {
    const text = sample.map((line) => row(line.dir, line.text)).join("\n");
    const decoded = [...decodeRecording(scripted as Harness, parseRecording(text))];
    expect(decoded).toHaveLength(sample.length);
    const types = decoded.flatMap(({ facts }) => facts.map((fact) => fact.type));
    expect(types[0]).toBe("session.started");
    expect(types.at(-1)).toBe("turn.ended");
    expect(types).not.toContain("agent.unparsed");
    expect([...decodeRecording(scripted as Harness, parseRecording(text))]).toEqual(decoded);
  });
});

function b64(bytes: Buffer): string {
  return `${JSON.stringify({ t: 0, dir: "out", b64: bytes.toString("base64") })}\n`;
}
