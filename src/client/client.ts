import type { z } from "zod";
import type {
  CreateSession,
  Outline,
  PermissionReply,
  RunCommand,
  SendMessage,
  SessionAt,
  SessionFilter,
  SessionFrame,
  SessionInfo,
  ShownSpec,
  SluiceEvent,
  ToolReply,
  UpdateSession,
  UsageBy,
  UsageReport,
} from "../contract/index.ts";
import type * as responses from "../contract/responses.ts";
import {
  type CheckpointsClient,
  createCheckpointsClient,
  createFsClient,
  fetchPort,
  type FsClient,
  hostOf,
  portPath,
} from "./sandbox.ts";
import {
  type CheckpointFilesClient,
  createCheckpointFilesClient,
  createFramesClient,
  createInputsClient,
  type FramesClient,
  type InputsClient,
  watchSessions,
  type WatchOptions,
} from "./inspection.ts";
import {
  messageStream,
  type MessageStreamOptions,
  sendMessage,
  type SendOptions,
  type SentMessage,
} from "./messages.ts";
import {
  type CallOptions,
  type ClientOptions,
  type EventPage,
  type EventPageOptions,
  type KeyOptions,
  pathOf,
  toPageQuery,
  Transport,
} from "./transport.ts";
import { createTokensClient, type TokensClient } from "./tokens.ts";
import { subscribe, type SubscribeOptions } from "./subscribe.ts";
import { createWebhooksClient, type WebhooksClient } from "./webhooks.ts";

/** A filter of the usage, and its grouping. */
export interface UsageQuery {
  readonly by?: UsageBy;
  readonly session?: string | undefined;
  readonly model?: string | undefined;
  /** The first and the last day, in UTC, such as 2026-11-18. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** Every route of the universal dialect. Failures are thrown as `SluiceClientError`. */
export interface SluiceClient {
  health(options?: CallOptions): Promise<z.infer<typeof responses.Health>>;
  /** The servers that share the database; without one, the server alone. */
  nodes(options?: CallOptions): Promise<NodeInfo[]>;
  agents(options?: CallOptions): Promise<AgentInfo[]>;
  /** Tokens and costs, added up. `turn` and `request` need a session. */
  usage(query?: UsageQuery & CallOptions): Promise<UsageReport>;
  readonly sessions: {
    /** Newest first. */
    list(
      page?: SessionFilter & { cursor?: string; limit?: number } & CallOptions,
    ): Promise<z.infer<typeof responses.SessionPage>>;
    /** All sessions that match, page by page. */
    iterate(page?: SessionFilter & { limit?: number } & CallOptions): AsyncGenerator<SessionInfo, void>;
    create(session: string, spec: CreateSession, options?: KeyOptions): Promise<CreatedSession>;
    get(session: string, options?: CallOptions): Promise<SessionInfo>;
    /** The session after this event of its log. */
    at(session: string, sequence: number, options?: CallOptions): Promise<SessionAt>;
    /** The session's turns, in order. The first page has the newest, and `next` leads to earlier ones. */
    outline(session: string, page?: { cursor?: string; limit?: number } & CallOptions): Promise<Outline>;
    /** All sessions that match, then their changes, live. */
    watch(options?: WatchOptions): AsyncGenerator<SessionFrame, void>;
    /** The settings as they are now; secret values are hidden. */
    spec(session: string, options?: CallOptions): Promise<ShownSpec>;
    /** Changes the given fields. Settings of the agent need an idle session, and hold from its next turn on. */
    update(session: string, change: UpdateSession, options?: CallOptions): Promise<SessionInfo>;
    delete(session: string, options?: CallOptions): Promise<void>;
  };
  readonly events: {
    page(session: string, page?: EventPageOptions & CallOptions): Promise<EventPage>;
    /** The events so far, page by page. */
    iterate(session: string, page?: EventPageOptions & CallOptions): AsyncGenerator<SluiceEvent, void>;
  };
  /** The events so far in one array; for a long log, use `events`. */
  getEvents(session: string, page?: EventPageOptions & CallOptions): Promise<SluiceEvent[]>;
  readonly fs: FsClient;
  subscribe(session: string, options?: SubscribeOptions): AsyncGenerator<SluiceEvent, void>;
  sendMessage(session: string, message: string | SendMessage, options?: SendOptions): Promise<SentMessage>;
  messageStream(
    session: string,
    message: string | SendMessage,
    options?: MessageStreamOptions,
  ): AsyncGenerator<SluiceEvent, void>;
  /** Returns the turn or the command that was interrupted, if any. */
  interrupt(session: string, options?: CallOptions): Promise<{ turnId?: string; commandId?: string }>;
  /** `destroy` removes the sandbox and its files too. */
  terminate(session: string, options?: CallOptions & { destroy?: boolean }): Promise<void>;
  /** Runs a shell command in the sandbox; its events come after the sequence `after`. */
  runCommand(
    session: string,
    command: RunCommand,
    options?: KeyOptions,
  ): Promise<z.infer<typeof responses.StartedCommand>>;
  replyPermission(
    session: string,
    permission: string,
    reply: PermissionReply,
    options?: KeyOptions,
  ): Promise<void>;
  replyQuestion(session: string, question: string, answers: string[][], options?: KeyOptions): Promise<void>;
  /** `message` is the reason, for agents that take one. */
  rejectQuestion(
    session: string,
    question: string,
    options?: KeyOptions & { message?: string | undefined },
  ): Promise<void>;
  replyTool(session: string, request: string, reply: ToolReply, options?: KeyOptions): Promise<void>;
  /** Suspends every process of the session; messages wait until `resume`. */
  pause(session: string, options?: CallOptions): Promise<void>;
  resume(session: string, options?: CallOptions): Promise<void>;
  /** Moves an idle session to a sandbox of another provider, with its files and its agent's memory. */
  move(session: string, sandbox: string, options?: KeyOptions): Promise<SessionInfo>;
  /** The address of a sandbox's port on the server's host. */
  host(session: string, port: number, options?: CallOptions): Promise<URL>;
  /** The URL by which the server forwards requests to a sandbox's port; each request needs the token. */
  portUrl(session: string, port: number, path?: string): string;
  /** A request to a program in the sandbox; resolves with any status. */
  fetchPort(session: string, port: number, path?: string, init?: RequestInit): Promise<Response>;
  readonly checkpoints: CheckpointsClient & CheckpointFilesClient;
  /** The frames of a session in any dialect. */
  readonly frames: FramesClient;
  readonly inputs: InputsClient;
  /** Tokens with a scope; these calls need the server's own token or one of the scope `admin`. */
  readonly tokens: TokensClient;
  /** Addresses that get events; these calls need the scope `admin`, too. */
  readonly webhooks: WebhooksClient;
}

export type NodeInfo = z.infer<typeof responses.NodeInfo>;
export type AgentInfo = z.infer<typeof responses.Agent>;
export type CreatedSession = z.infer<typeof responses.CreatedSession>;

export function createClient(options: ClientOptions): SluiceClient {
  const transport = new Transport(options);
  const events = createEventsClient(transport);
  const post = async (path: string, json: unknown, options: KeyOptions = {}) => {
    await transport.done(path, { ...options, method: "POST", json });
  };

  return {
    health: ({ signal } = {}) => transport.json("/v1/health", { signal }),
    usage: ({ signal, ...query } = {}) => transport.json("/v1/usage", { query, signal }),
    nodes: async ({ signal } = {}) => {
      const body = await transport.json<z.infer<typeof responses.NodeList>>("/v1/nodes", { signal });
      return body.nodes;
    },
    agents: async ({ signal } = {}) => {
      const body = await transport.json<z.infer<typeof responses.AgentList>>("/v1/agents", { signal });
      return body.agents;
    },
    sessions: createSessionsClient(transport),
    events,
    async getEvents(session, page) {
      const all: SluiceEvent[] = [];
      for await (const event of events.iterate(session, page)) all.push(event);
      return all;
    },
    fs: createFsClient(transport),
    subscribe: (session, options) => subscribe(transport, session, options),
    sendMessage: (session, message, options) => sendMessage(transport, session, message, options),
    messageStream: (session, message, options) => messageStream(transport, session, message, options),
    async interrupt(session, { signal } = {}) {
      const { headers } = await transport.done(pathOf(session, "interrupt"), { method: "POST", signal });
      const turnId = headers.get("sluice-turn-id");
      const commandId = headers.get("sluice-command-id");
      return { ...(turnId === null ? {} : { turnId }), ...(commandId === null ? {} : { commandId }) };
    },
    async terminate(session, { destroy, signal } = {}) {
      await transport.done(pathOf(session, "terminate"), { method: "POST", query: { destroy }, signal });
    },
    runCommand: (session, command, options = {}) =>
      transport.json(pathOf(session, "commands"), { ...options, method: "POST", json: command }),
    replyPermission: (session, id, reply, options) =>
      post(pathOf(session, answerPath("permissions", id, "reply")), reply, options),
    replyQuestion: (session, id, answers, options) =>
      post(pathOf(session, answerPath("questions", id, "reply")), { answers }, options),
    rejectQuestion: (session, id, { message, ...options } = {}) =>
      post(
        pathOf(session, answerPath("questions", id, "reject")),
        message === undefined ? undefined : { message },
        options,
      ),
    replyTool: (session, id, reply, options) =>
      post(pathOf(session, answerPath("tools", id, "reply")), reply, options),
    pause: (session, options) => post(pathOf(session, "pause"), undefined, options),
    resume: (session, options) => post(pathOf(session, "resume"), undefined, options),
    move: (session, sandbox, options = {}) =>
      transport.json(pathOf(session, "move"), { ...options, method: "POST", json: { sandbox } }),
    host: (session, port, options) => hostOf(transport, session, port, options),
    portUrl: (session, port, path = "/") => `${transport.url}${portPath(session, port, path)}`,
    fetchPort: (session, port, path = "/", init) => fetchPort(transport, portPath(session, port, path), init),
    checkpoints: { ...createCheckpointsClient(transport), ...createCheckpointFilesClient(transport) },
    frames: createFramesClient(transport),
    inputs: createInputsClient(transport),
    tokens: createTokensClient(transport),
    webhooks: createWebhooksClient(transport),
  };
}

function createSessionsClient(transport: Transport): SluiceClient["sessions"] {
  const list: SluiceClient["sessions"]["list"] = ({ status, signal, ...query } = {}) =>
    transport.json("/v1/sessions", { query: { ...query, status: status?.join(",") }, signal });
  return {
    list,
    async *iterate(options = {}) {
      let cursor: string | undefined;
      do {
        const page = await list({ ...options, ...(cursor ? { cursor } : {}) });
        yield* page.sessions;
        cursor = page.next;
      } while (cursor);
    },
    create: (session, spec, options = {}) =>
      transport.json(pathOf(session), { ...options, method: "POST", json: spec }),
    get: (session, { signal } = {}) => transport.json(pathOf(session), { signal }),
    at: (session, at, { signal } = {}) => transport.json(pathOf(session), { query: { at }, signal }),
    outline: (session, { signal, ...query } = {}) =>
      transport.json(pathOf(session, "outline"), { query, signal }),
    watch: (options) => watchSessions(transport, options),
    spec: (session, { signal } = {}) => transport.json(pathOf(session, "spec"), { signal }),
    update: (session, change, { signal } = {}) =>
      transport.json(pathOf(session), { method: "PATCH", json: change, signal }),
    delete: async (session, { signal } = {}) => {
      await transport.done(pathOf(session), { method: "DELETE", signal });
    },
  };
}

function createEventsClient(transport: Transport): SluiceClient["events"] {
  const page: SluiceClient["events"]["page"] = (session, options = {}) =>
    transport.json(pathOf(session, "events"), { query: toPageQuery(options), signal: options.signal });
  return {
    page,
    async *iterate(session, options = {}) {
      let { after } = options;
      for (;;) {
        const { events, hasMore } = await page(session, { ...options, after });
        yield* events;
        const last = events.at(-1);
        if (!hasMore || !last) return;
        after = last.sequence;
      }
    },
  };
}

function answerPath(kind: string, id: string, verb: string): string {
  return `${kind}/${encodeURIComponent(id)}/${verb}`;
}
