import type {
  CreateSession,
  PermissionReply,
  RunCommand,
  SendMessage,
  SessionFilter,
  SessionInfo,
  ShownSpec,
  SluiceEvent,
  ToolReply,
  UpdateSession,
} from "../contract/index.ts";
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

/** Every route of the universal dialect. Failures are thrown as `SluiceClientError`. */
export interface SluiceClient {
  health(options?: CallOptions): Promise<{ status: string }>;
  agents(options?: CallOptions): Promise<AgentInfo[]>;
  readonly sessions: {
    /** Newest first. */
    list(
      page?: SessionFilter & { cursor?: string; limit?: number } & CallOptions,
    ): Promise<{ sessions: SessionInfo[]; next?: string }>;
    /** All sessions that match, page by page. */
    iterate(page?: SessionFilter & { limit?: number } & CallOptions): AsyncGenerator<SessionInfo, void>;
    create(session: string, spec: CreateSession, options?: KeyOptions): Promise<CreatedSession>;
    get(session: string, options?: CallOptions): Promise<SessionInfo>;
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
  ): Promise<{ commandId: string; after: number }>;
  replyPermission(
    session: string,
    permission: string,
    reply: PermissionReply,
    options?: KeyOptions,
  ): Promise<void>;
  replyQuestion(session: string, question: string, answers: string[][], options?: KeyOptions): Promise<void>;
  rejectQuestion(session: string, question: string, options?: KeyOptions): Promise<void>;
  replyTool(session: string, request: string, reply: ToolReply, options?: KeyOptions): Promise<void>;
  /** Suspends every process of the session; messages wait until `resume`. */
  pause(session: string, options?: CallOptions): Promise<void>;
  resume(session: string, options?: CallOptions): Promise<void>;
  /** The address of a sandbox's port on the server's host. */
  host(session: string, port: number, options?: CallOptions): Promise<URL>;
  /** The URL by which the server forwards requests to a sandbox's port; each request needs the token. */
  portUrl(session: string, port: number, path?: string): string;
  /** A request to a program in the sandbox; resolves with any status. */
  fetchPort(session: string, port: number, path?: string, init?: RequestInit): Promise<Response>;
  readonly checkpoints: CheckpointsClient;
  /** Tokens with a scope; these calls need the server's own token or one of the scope `admin`. */
  readonly tokens: TokensClient;
}

export interface AgentInfo {
  readonly id: string;
  readonly installed: boolean;
  readonly version?: string;
  readonly hint?: string;
  readonly capabilities: Readonly<Record<string, boolean>>;
}

export interface CreatedSession {
  readonly healthy: boolean;
  readonly error?: unknown;
  readonly nativeSessionId?: string;
}

export function createClient(options: ClientOptions): SluiceClient {
  const transport = new Transport(options);
  const events = createEventsClient(transport);
  const post = async (path: string, json: unknown, options: KeyOptions = {}) => {
    await transport.done(path, { ...options, method: "POST", json });
  };

  return {
    health: ({ signal } = {}) => transport.json("/v1/health", { signal }),
    agents: async ({ signal } = {}) => {
      const body = await transport.json<{ agents: AgentInfo[] }>("/v1/agents", { signal });
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
    rejectQuestion: (session, id, options) =>
      post(pathOf(session, answerPath("questions", id, "reject")), undefined, options),
    replyTool: (session, id, reply, options) =>
      post(pathOf(session, answerPath("tools", id, "reply")), reply, options),
    pause: (session, options) => post(pathOf(session, "pause"), undefined, options),
    resume: (session, options) => post(pathOf(session, "resume"), undefined, options),
    host: (session, port, options) => hostOf(transport, session, port, options),
    portUrl: (session, port, path = "/") => `${transport.url}${portPath(session, port, path)}`,
    fetchPort: (session, port, path = "/", init) => fetchPort(transport, portPath(session, port, path), init),
    checkpoints: createCheckpointsClient(transport),
    tokens: createTokensClient(transport),
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
