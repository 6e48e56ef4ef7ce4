import type { EventOf, EventType, SessionSpec, SluiceEvent } from "../../../src/contract/index.ts";
import { readFrames } from "../../support/sse.ts";
import type { TestServer } from "../../support/server.ts";
import { script } from "../../support/engine.ts";

/** A client written from the page: plain HTTP and SSE, without our libraries. */

export async function post(server: TestServer, path: string, body?: unknown): Promise<Response> {
  return server.fetch(`/v1/sessions/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

export async function create(server: TestServer, id: string, spec: Partial<SessionSpec> = {}): Promise<void> {
  const response = await post(server, id, { agent: "scripted", ...spec });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
}

export async function send(server: TestServer, id: string, ...steps: unknown[]): Promise<string> {
  const response = await post(server, `${id}/messages`, { message: script(...steps) });
  if (response.status !== 204) throw new Error(`${response.status} ${await response.text()}`);
  return response.headers.get("sluice-turn-id") ?? "";
}

/** All pages of the events. */
export async function readEvents(server: TestServer, id: string, query = ""): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for (;;) {
    const offset = events.at(-1)?.sequence ?? 0;
    const response = await server.fetch(`/v1/sessions/${id}/events?offset=${offset}&limit=1000${query}`);
    const page = (await response.json()) as { events: SluiceEvent[]; hasMore: boolean };
    events.push(...page.events);
    if (!page.hasMore) return events;
  }
}

/** Follows the session with extensions and answers its requests until its turn ends. */
export async function awaitTurn(server: TestServer, id: string, turn: string): Promise<SluiceEvent[]> {
  const frames = await readFrames(server, id, {
    after: 0,
    until: ({ data }) => {
      const event = JSON.parse(data) as SluiceEvent;
      void answer(server, id, event);
      return event.type === "turn.ended" && event.data.turn_id === turn;
    },
  });
  return frames.map(({ data }) => JSON.parse(data) as SluiceEvent);
}

/** Follows the session to its end, as a plain client does. */
export async function awaitEnd(server: TestServer, id: string): Promise<SluiceEvent[]> {
  const response = await server.fetch(`/v1/sessions/${id}/events/sse`);
  const text = await response.text();
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? "") as SluiceEvent);
}

export async function runTurn(server: TestServer, id: string, ...steps: unknown[]): Promise<SluiceEvent[]> {
  return awaitTurn(server, id, await send(server, id, ...steps));
}

/** The answer is in the prompt: "no" rejects. */
async function answer(server: TestServer, id: string, event: SluiceEvent): Promise<void> {
  const says = (text: string): boolean => JSON.stringify(event.data).includes(text);
  if (event.type === "permission.requested") {
    const path = `${id}/permissions/${event.data.permission_id}/reply`;
    await post(
      server,
      path,
      says("no-thanks") ? { reply: "reject", message: "not today" } : { reply: "once" },
    );
  }
  if (event.type === "question.requested") {
    const path = `${id}/questions/${event.data.question_id}`;
    if (says("no-thanks")) await post(server, `${path}/reject`);
    else await post(server, `${path}/reply`, { answers: [[event.data.options[0] ?? "free"]] });
  }
  if (event.type === "tool.requested") {
    await post(server, `${id}/tools/${event.data.request_id}/reply`, { output: "rain" });
  }
}

export function ofType<T extends EventType>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}

/** A session with each ability of the agent once, for the whole page. */
export const EVERYTHING: readonly unknown[] = [
  {
    plan: [
      { content: "look", status: "completed" },
      { content: "answer", status: "in_progress" },
    ],
  },
  { think: "Let me think about this." },
  { say: "Hello, world!" },
  { shell: "echo out; echo err >&2" },
  { shell: "echo broken; exit 3" },
  { write: { path: "src/main.ts", content: "one\ntwo\n" } },
  { edit: { path: "src/main.ts", old: "two", new: "three" } },
  { read: "src/main.ts" },
  { delete: "src/main.ts" },
  { read: "no-such-file" },
  { ask: { shell: "echo allowed" } },
  { ask: { shell: "echo no-thanks" } },
  { question: { prompt: "Which?", options: ["red", "blue"] } },
  { question: { prompt: "no-thanks?", options: ["a"] } },
  { custom: { name: "weather", input: { city: "Oslo" } } },
  { mcp: { server: "nowhere", tool: "search", input: {} } },
  { parallel: [{ shell: "echo a" }, { write: { path: "b.txt", content: "b" } }] },
  { subagent: { name: "helper", steps: [{ say: "nested" }, { shell: "echo deep" }] } },
  { image: { data: "iVBORw0KGgo=", mimeType: "image/png" } },
  { usage: { input_tokens: 3, output_tokens: 4 } },
  { compact: true },
  { fail: { kind: "overloaded", times: 1 } },
  { raw: "what no decoder knows" },
  { stderr: "a word on stderr" },
  { say: "done" },
];
