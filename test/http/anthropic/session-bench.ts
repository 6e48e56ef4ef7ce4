import type Anthropic from "@anthropic-ai/sdk";
import { expect } from "vitest";
import { script } from "../../support/engine.ts";
import { type AnthropicBench, collect } from "./anthropic-bench.ts";

export type Event = Anthropic.Beta.Sessions.Events.BetaManagedAgentsStreamSessionEvents;

export interface SessionWish {
  /** The tools of the scripted agent: its toolset, allowed by default. */
  readonly tools?: object[];
  readonly mcp_servers?: object[];
  readonly selfHosted?: boolean;
  readonly session?: object;
}

let count = 0;

/** A session of the scripted agent, with its agent and its environment. */
export async function makeSession(
  { beta }: Pick<AnthropicBench, "beta">,
  wish: SessionWish = {},
): Promise<{ id: string; agentId: string; environmentId: string }> {
  const number = (count += 1);
  const agent = await beta.agents.create({
    name: `agent ${number}`,
    model: "scripted",
    tools: (wish.tools ?? [{ type: "agent_toolset_20260401" }]) as never,
    ...(wish.mcp_servers && { mcp_servers: wish.mcp_servers as never }),
  });
  const environment = await beta.environments.create({
    name: `environment ${number} ${process.pid}`,
    ...(wish.selfHosted && { config: { type: "self_hosted" } }),
  });
  const session = await beta.sessions.create({
    agent: agent.id,
    environment_id: environment.id,
    ...wish.session,
  });
  return { id: session.id, agentId: agent.id, environmentId: environment.id };
}

export const text = (...steps: unknown[]): string => script(...steps);

export function message(words: string): { type: "user.message"; content: { type: "text"; text: string }[] } {
  return { type: "user.message", content: [{ type: "text", text: words }] };
}

/** Opens a stream, runs `act`, and returns the events until `isLast`. */
export async function watch(
  { beta }: Pick<AnthropicBench, "beta">,
  session: string,
  act: () => PromiseLike<unknown>,
  isLast: (event: Event) => boolean = isHalt,
): Promise<Event[]> {
  const stream = await beta.sessions.events.stream(session);
  const acting = Promise.resolve(act());
  acting.catch(() => stream.controller.abort());
  const events: Event[] = [];
  for await (const event of stream) {
    events.push(event);
    if (isLast(event)) break;
  }
  await acting;
  return events;
}

/** Sends a script and collects the events until the turn ends or waits. */
export function turn(bench: AnthropicBench, session: string, ...steps: unknown[]): Promise<Event[]> {
  return watch(bench, session, () =>
    bench.beta.sessions.events.send(session, { events: [message(text(...steps))] }),
  );
}

export function isRunning(event: Event): boolean {
  return event.type === "session.status_running";
}

export function isHalt(event: Event): boolean {
  return event.type === "session.status_idle" || event.type === "session.status_terminated";
}

export function isEnd(event: Event): boolean {
  if (event.type === "session.status_terminated") return true;
  return event.type === "session.status_idle" && event.stop_reason.type !== "requires_action";
}

export function typesOf(events: readonly Event[]): string[] {
  return events.map(({ type }) => type);
}

export function ofType<T extends Event["type"]>(
  events: readonly Event[],
  type: T,
): Extract<Event, { type: T }>[] {
  return events.filter((event): event is Extract<Event, { type: T }> => event.type === type);
}

export function wordsOf(events: readonly Event[]): string[] {
  return ofType(events, "agent.message").flatMap(({ content }) =>
    content.map((block) => (block.type === "text" ? block.text : "")),
  );
}

/** The pending event ids of the newest idle event. */
export function awaitedIds(events: readonly Event[]): string[] {
  const [idle] = ofType(events, "session.status_idle").slice(-1);
  return idle?.stop_reason.type === "requires_action" ? idle.stop_reason.event_ids : [];
}

export function allowing(tool_use_id: string | undefined): object {
  return { type: "user.tool_confirmation", tool_use_id, result: "allow" };
}

export async function history({ beta }: Pick<AnthropicBench, "beta">, session: string): Promise<Event[]> {
  return (await collect(beta.sessions.events.list(session))) as Event[];
}

export function idsOf(events: readonly Event[]): string[] {
  return events.map((event) => (event as { id?: string }).id ?? "");
}

/** Asserts that the list has the streamed events, equal and in the same order. */
export async function expectListed(
  bench: AnthropicBench,
  session: string,
  streamed: readonly Event[],
): Promise<void> {
  const listed = await history(bench, session);
  const ids = idsOf(listed);
  expect(new Set(ids).size).toBe(ids.length);
  for (const event of listed as { id: string; processed_at: string | null }[]) {
    expect(event.id).toMatch(/^sevt_/);
    if (event.processed_at !== null)
      expect(event.processed_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  }
  const told = streamed.filter((event) => event.type !== "event_start" && event.type !== "event_delta");
  const final = told.filter((event) => (event as { processed_at?: string | null }).processed_at !== null);
  const known = new Set(idsOf(final));
  expect(listed.filter((event) => known.has((event as { id: string }).id))).toEqual(final);
}
