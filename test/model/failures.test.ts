import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { openLab } from "../scripted-agent/lab.ts";
import { post, say, toEvents, WIRES, type TestWire } from "./wires.ts";

let model: ScriptedModel;
beforeEach(async () => {
  model = await createScriptedModel();
});
afterEach(() => model.close());

const STATUS: Record<string, [anthropic: number, others: number]> = {
  overloaded: [529, 503],
  rate_limited: [429, 429],
  bad_gateway: [502, 502],
  server_error: [500, 500],
  unauthorized: [401, 401],
  context_length: [400, 400],
};

function toScript(kind: string, times: number): string {
  return `#script [{"fail":{"kind":"${kind}","times":${times}}},{"say":"one two three four"}]`;
}

async function request(wire: TestWire, text: string, stream: boolean): Promise<Response> {
  const { path, body } = wire.request({ texts: [text], stream });
  return post(model.url + path, body);
}

describe.each(WIRES.map((wire) => ({ wire, name: wire.id })))("$name", ({ wire }) => {
  it.each(Object.keys(STATUS))("%s fails as often as it should, then goes on", async (kind) => {
    const [anthropic, others] = STATUS[kind] ?? [0, 0];
    for (let time = 0; time < 2; time++) {
      const failed = await request(wire, toScript(kind, 2), false);
      expect(failed.status).toBe(wire.id === "anthropic" ? anthropic : others);
      expect(failed.headers.get("retry-after")).toBe(kind === "rate_limited" ? "1" : null);
      expect(Object.keys((await failed.json()) as object)).toContain("error");
    }
    const said = await say(model.url, wire, { texts: [toScript(kind, 2)], stream: true });
    expect(said.text).toBe("one two three four");
    // A new run of the same conversation fails again.
    expect((await request(wire, toScript(kind, 2), false)).status).not.toBe(200);
  });

  it("terminal never recovers", async () => {
    for (let time = 0; time < 3; time++)
      expect((await request(wire, toScript("terminal", 1), true)).status).toBe(400);
  });

  it("counts each conversation on its own", async () => {
    expect((await request(wire, toScript("overloaded", 1), false)).status).not.toBe(200);
    const other = wire.request({ texts: ["before", toScript("overloaded", 1)], stream: false });
    expect((await post(model.url + other.path, other.body)).status).not.toBe(200);
    expect((await request(wire, toScript("overloaded", 1), false)).status).toBe(200);
  });

  it("cut breaks the stream in the middle of the text, once", async () => {
    const response = await request(wire, toScript("cut", 1), true);
    expect(response.status).toBe(200);
    let text = "";
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const readAll = async (): Promise<void> => {
      for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
    };
    await expect(readAll()).rejects.toThrow();
    expect(text).toContain("two");
    expect(text).not.toContain("three");
    await expect(request(wire, toScript("cut", 2), false).then((cut) => cut.text())).rejects.toThrow();
    const said = await say(model.url, wire, { texts: [toScript("cut", 1)], stream: true });
    expect(said.text).toBe("one two three four");
  });

  it("garbage puts a line that is no JSON between the deltas, once", async () => {
    const events = toEvents(await (await request(wire, toScript("garbage", 1), true)).text());
    const broken = events.filter(({ data }) => data !== "[DONE]" && !isJson(data));
    expect(broken).toHaveLength(1);
    const whole = await request(wire, toScript("garbage", 2), false);
    expect(isJson(await whole.text())).toBe(false);
    expect((await say(model.url, wire, { texts: [toScript("garbage", 1)], stream: true })).text).toContain(
      "four",
    );
  });

  it("empty says nothing, once", async () => {
    const said = await say(model.url, wire, { texts: [toScript("empty", 1)], stream: false });
    expect(said).toMatchObject({ text: "", calls: [] });
    expect((await say(model.url, wire, { texts: [toScript("empty", 1)], stream: false })).text).toContain(
      "four",
    );
  });

  it("a failure behind words comes in the stream", async () => {
    const script = `#script [{"say":"begun"},{"fail":{"kind":"server_error"}},{"say":"ended"}]`;
    const response = await request(wire, script, true);
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).toContain("begun");
    expect(text).toContain("The scripted model had an internal error");
    expect(text).not.toContain("ended");
    expect((await say(model.url, wire, { texts: [script], stream: true })).text).toBe("begunended");
  });
});

it("OpenAI's responses tell of a full context in the stream", async () => {
  const wire = WIRES[1]!;
  const response = await request(wire, toScript("context_length", 1), true);
  expect(response.status).toBe(200);
  const failed = toEvents(await response.text()).find(({ event }) => event === "response.failed");
  expect(failed?.data).toContain("context_length_exceeded");
});

describe("the scripted agent", () => {
  const lab = openLab();

  it("says that a failure is the model's alone", async () => {
    const agent = await lab.start();
    agent.prompt(`#script [{"fail":{"kind":"cut"}}]`);
    const ended = await agent.next("turn.ended");
    expect(ended).toMatchObject({
      stop_reason: "failed",
      error: { code: "bad_script", message: expect.stringContaining('"cut" is for the scripted model') },
    });
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
