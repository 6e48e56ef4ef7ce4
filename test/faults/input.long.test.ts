import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { script } from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

const MB = 1024 * 1024;
let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  await server.client.sessions.create("s", { agent: "scripted" });
});
afterAll(() => server.close());

const send = (id: string, body: string): Promise<Response> =>
  server.fetch(`/v1/sessions/${id}/messages`, { method: "POST", body });

const problemOf = async (response: Response): Promise<{ status: number; code: string; detail: string }> => {
  const { status, type, detail } = (await response.json()) as {
    status: number;
    type: string;
    detail: string;
  };
  return { status, code: type.replace("urn:sluice:error:", ""), detail };
};

const until = async (id: string, wanted: (event: SluiceEvent) => boolean): Promise<SluiceEvent[]> => {
  const frames = await readFrames(server, id, { after: 0, until: ({ data }) => wanted(JSON.parse(data)) });
  return frames.map(({ data }) => JSON.parse(data) as SluiceEvent);
};

describe("an invalid request", () => {
  it("an unknown agent is named, with those that there are and the nearest", async () => {
    const response = await server.fetch("/v1/sessions/x", { method: "POST", body: '{"agent":"scriptd"}' });
    const problem = await problemOf(response);
    expect(problem).toMatchObject({ status: 400, code: "unsupported_agent" });
    expect(problem.detail).toContain('Did you mean "scripted"?');
    expect((await server.fetch("/v1/sessions/x")).status).toBe(404);
  });

  it("an unknown sandbox is named, with those that there are", async () => {
    const body = JSON.stringify({ agent: "scripted", sandbox: "moon" });
    const problem = await problemOf(await server.fetch("/v1/sessions/x", { method: "POST", body }));
    expect(problem).toMatchObject({ status: 400, code: "unsupported_sandbox" });
    expect(problem.detail).toContain("local");
  });

  it.each(["", "{", "[]", "null", '"text"', '{"message":1}', '{"message":"a"', "\u0000", '{"message":"a"}}'])(
    "the body %j is refused and leaves no trace",
    async (body) => {
      const before = (await server.client.sessions.get("s")).eventCount;
      const problem = await problemOf(await send("s", body));
      expect(problem).toMatchObject({ status: 400, code: "invalid_request" });
      expect(problem.detail).toMatch(/position \d+|expected|message/i);
      expect((await server.client.sessions.get("s")).eventCount).toBe(before);
    },
  );

  it("a body that is not UTF-8 is refused", async () => {
    const body = Buffer.concat([Buffer.from('{"message":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]);
    const response = await server.fetch("/v1/sessions/s/messages", { method: "POST", body });
    expect(response.status).toBe(400);
  });

  it.each([50, 256])(
    "a body of %i MB is too large, in bounded memory, and the server goes on",
    async (size) => {
      const before = await peakOf(server.pid);
      const { status, type, limit } = await pour(size * MB);
      expect({ status, type }).toEqual({ status: 413, type: "urn:sluice:error:too_large" });
      expect(limit).toBe(32 * MB);
      expect((await peakOf(server.pid)) - before).toBeLessThan(160 * MB);
      expect((await server.fetch("/v1/sessions/s")).status).toBe(200);
    },
  );

  it.each([
    ["/v1/sessions?cursor=evt_unknown", 400],
    ["/v1/sessions?cursor=-1", 400],
    ["/v1/sessions/s/events?offset=9007199254740993", 400],
    ["/v1/sessions/s/events?offset=123456", 410],
    ["/v1/sessions/s/events/sse?after=123456", 410],
    ["/v1/sessions/s/events?offset=", 400],
    ["/v1/sessions/s/events?offset=1&offset=2", 400],
  ])("the cursor of %s is answered with %i", async (path, status) => {
    const problem = await problemOf(await server.fetch(path));
    expect(problem.status).toBe(status);
    expect(problem.detail.length).toBeGreaterThan(15);
  });
});

describe("a session id", () => {
  it.each([
    ["a slash", "a%2Fb"],
    ["the parent folder", "%2E%2E%2Fx"],
    ["a leading dot", ".hidden"],
    ["129 characters", "a".repeat(129)],
    ["unicode", encodeURIComponent("sitzung-ü")],
    ["a newline", "a%0Ab"],
    ["a NUL", "a%00b"],
    ["a space", "a%20b"],
    ["a broken escape", "a%ZZb"],
  ])("with %s is refused, and no folder is made for it", async (_, id) => {
    const response = await server.fetch(`/v1/sessions/${id}`, {
      method: "POST",
      body: '{"agent":"scripted"}',
    });
    const problem = await problemOf(response);
    expect(problem).toMatchObject({ status: 400, code: "invalid_request" });
    expect(problem.detail).toContain("a session id has 1 to 128 letters");
    for (const path of ["", "/events", "/events/sse"]) {
      expect((await server.fetch(`/v1/sessions/${id}${path}`)).status, path).toBe(404);
    }
  });

  it("that is empty, or dots that a URL swallows, is no session", async () => {
    for (const path of ["/v1/sessions/", "/v1/sessions//events", "/v1/sessions/%2E%2E", "/v1/sessions/."]) {
      const response = await server.fetch(path, { method: "POST", body: '{"agent":"scripted"}' });
      expect([400, 404, 405], path).toContain(response.status);
    }
  });

  it.each([
    "a".repeat(128),
    "A.b_c:d-e",
    "0",
    "a..b",
    "constructor",
    "__proto__".replaceAll("_", "-").slice(2),
  ])("%s is as good as any", async (id) => {
    await server.client.sessions.create(id, { agent: "scripted" });
    try {
      const sent = await send(id, JSON.stringify({ message: script({ say: "hello" }) }));
      const turn = sent.headers.get("sluice-turn-id");
      const events = await until(id, (event) => event.type === "turn.ended" && event.turn_id === turn);
      expectLawful(events);
      const told = `${JSON.stringify(events.slice(-4))}\n${server.stderr()}`;
      expect(events.at(-1)?.data, told).toMatchObject({ status: "completed" });
    } finally {
      await server.client.sessions.delete(id);
    }
  });
});

describe("messages", () => {
  it("to an ended session are refused, and say what to do; its log stays readable", async () => {
    await server.client.sessions.create("ended", { agent: "scripted" });
    await server.client.terminate("ended");
    const { eventCount } = await server.client.sessions.get("ended");
    for (const path of ["messages", "messages/stream"]) {
      const response = await server.fetch(`/v1/sessions/ended/${path}`, {
        method: "POST",
        body: '{"message":"x"}',
      });
      const problem = await problemOf(response);
      expect(problem).toMatchObject({ status: 409, code: "session_ended" });
      expect(problem.detail).toContain("create a new one");
    }
    expect((await server.fetch("/v1/sessions/ended/interrupt", { method: "POST" })).status).toBe(204);
    expect((await server.fetch("/v1/sessions/ended/terminate", { method: "POST" })).status).toBe(204);
    expect((await server.client.sessions.get("ended")).eventCount).toBe(eventCount);
    expect((await until("ended", () => false)).at(-1)?.type).toBe("session.ended");
  });

  it("1,000 of them wait in order behind a turn, and each gets its own", { timeout: 120_000 }, async () => {
    await server.client.sessions.create("queue", { agent: "scripted" });
    await send("queue", JSON.stringify({ message: script({ ask: { shell: "true" } }) }));
    const turns: string[] = [];
    for (let batch = 0; batch < 20; batch++) {
      const sent = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          send("queue", JSON.stringify({ message: script({ say: `${batch * 50 + index}`, chunks: 1 }) })),
        ),
      );
      for (const response of sent) {
        expect(response.status).toBe(204);
        turns.push(response.headers.get("sluice-turn-id") ?? "");
      }
    }
    const { queued, pendingActions } = await server.client.sessions.get("queue");
    expect(queued).toBe(1_000);
    await server.client.replyPermission("queue", pendingActions[0]?.id ?? "", { reply: "once" });
    let left = 1_001;
    const events = await until("queue", (event) => event.type === "turn.ended" && --left === 0);
    expectLawful(events);
    const accepted = events.flatMap((event) => (event.type === "input.accepted" ? [event.data.turn_id] : []));
    const ended = events.flatMap((event) => (event.type === "turn.ended" ? [event.data.turn_id] : []));
    expect(ended).toEqual(accepted);
    expect(new Set(ended.slice(1))).toEqual(new Set(turns));
    expect(events.filter((event) => event.type === "process.started")).toHaveLength(1);
    await server.client.sessions.delete("queue");
  });

  it("of 5 MB arrive byte for byte, quotes, $, backticks, newlines and all", async () => {
    const piece = `"double" 'single' \`backtick\` $(date) $HOME \${x} \\ \\n \t %s %% <&> ; | é 漢 🜂 \u2028 \u0007 \r\n`;
    const message = piece.repeat(Math.ceil((5 * MB) / Buffer.byteLength(piece)));
    await server.client.sessions.create("big", { agent: "scripted" });
    await server.client.sendMessage("big", message);
    await server.client.sendMessage("big", script({ say: "$history", chunks: 40 }));
    let turns = 0;
    const events = await until("big", (event) => event.type === "turn.ended" && ++turns === 2);
    const completed = events.filter(
      (event): event is EventOf<"item.completed"> => event.type === "item.completed",
    );
    const user = completed.find((event) => event.data.item.role === "user")?.data.item.content[0];
    const echoed = completed.at(-1)?.data.item.content[0];
    // Compared as booleans: a difference of 5 MB is nothing to print.
    expect(user?.type === "text" && user.text === message).toBe(true);
    expect(echoed?.type === "text" && echoed.text === message).toBe(true);
    const deltas = events.flatMap((event) => {
      const isOfEcho =
        event.type === "item.delta" && event.data.item_id === completed.at(-1)?.data.item.item_id;
      return isOfEcho ? [event.data.delta] : [];
    });
    expect(deltas.join("") === message).toBe(true);
    expectLawful(events);
  });
});

/** Sends that many bytes, announced, as curl would; the answer may come before the end. */
function pour(bytes: number): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    let sent = 0;
    const headers = { authorization: `Bearer ${server.token}`, "content-length": bytes };
    const outgoing = request(
      `${server.url}/v1/sessions/s/messages`,
      { method: "POST", headers, agent: false },
      (response) => {
        let body = "";
        response.on("data", (chunk) => (body += chunk));
        response.on("end", () => {
          outgoing.destroy();
          resolve(JSON.parse(body) as Record<string, unknown>);
        });
      },
    );
    outgoing.on("error", (error) => (sent >= bytes ? reject(error) : undefined));
    const piece = Buffer.alloc(MB, 0x20);
    const more = (): void => {
      while (sent < bytes && !outgoing.destroyed) {
        sent += piece.length;
        if (!outgoing.write(piece)) return void outgoing.once("drain", more);
      }
      outgoing.end();
    };
    more();
  });
}

/** The most memory that the process has ever had, in bytes. */
async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
