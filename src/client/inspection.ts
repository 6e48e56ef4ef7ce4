import type {
  CheckpointChanges,
  CheckpointTree,
  FormatName,
  FramePage,
  InputList,
  ReplaceInput,
  SessionFilter,
  SessionFrame,
  SessionInfo,
} from "../contract/index.ts";
import { SluiceClientError, toStreamError } from "./errors.ts";
import { Backoff, IDLE_TIMEOUT_MS, readConnection, type SubscribeOptions } from "./subscribe.ts";
import { type CallOptions, type EventView, pathOf, toViewQuery, type Transport } from "./transport.ts";

export type WatchOptions = SessionFilter & Omit<SubscribeOptions, "after" | "onTrimmed" | keyof EventView>;

/**
 * The sessions, then their changes, across cuts and restarts of the server. Every connection begins with the whole list
 * and `ready`: sessions that were not named since the last `onCut` are gone.
 */
export async function* watchSessions(
  transport: Transport,
  options: WatchOptions = {},
): AsyncGenerator<SessionFrame, void> {
  const { status, agent, text, ...rest } = options;
  const open = (signal: AbortSignal): Promise<Response> =>
    transport.call("/v1/sessions/sse", {
      query: { status: status?.join(","), agent, text },
      headers: { accept: "text/event-stream" },
      signal,
    });
  const parse = ({ event, data }: StreamMessage): SessionFrame =>
    ({ type: event, data: parseJson(data) }) as SessionFrame;
  yield* follow(open, parse, rest);
}

/** One frame of a dialect. */
export interface ClientFrame {
  /** The sequence of its event in the log. */
  readonly sequence: number;
  /** The name of its SSE event, if the dialect has one. */
  readonly event?: string;
  /** The JSON text, to the byte as the dialect sends it. */
  readonly data: string;
}

export interface FramePageOptions extends EventView, CallOptions {
  readonly after?: number | undefined;
  /** The page has the last frames before this sequence, in the log's order. */
  readonly before?: number | undefined;
  readonly limit?: number | undefined;
}

export interface FramesClient {
  page(session: string, format: FormatName, options?: FramePageOptions): Promise<FramePage>;
  /** The frames after `after`, live, each exactly once, across cuts. Ends with the session. */
  subscribe(
    session: string,
    format: FormatName,
    options?: Omit<SubscribeOptions, "onTrimmed">,
  ): AsyncGenerator<ClientFrame, void>;
}

export function createFramesClient(transport: Transport): FramesClient {
  return {
    page: (session, format, { signal, after, before, limit, ...view } = {}) =>
      transport.json(pathOf(session, "events"), {
        query: { as: format, after, before, limit, ...toViewQuery(view) },
        signal,
      }),
    async *subscribe(session, format, { after, ...options } = {}) {
      let last = after === undefined ? undefined : String(after);
      const open = (signal: AbortSignal): Promise<Response> =>
        transport.call(pathOf(session, "events/sse"), {
          query: { as: format, ...toViewQuery(options) },
          headers: { accept: "text/event-stream", "last-event-id": last },
          signal,
        });
      const parse = ({ id, event, data }: StreamMessage): ClientFrame => {
        last = id ?? last;
        const sequence = Number.parseInt(id ?? "0", 10);
        return event === undefined ? { sequence, data } : { sequence, event, data };
      };
      const stateOf = async (): Promise<State> => {
        try {
          const { ended } = await transport.json<SessionInfo>(pathOf(session), { signal: options.signal });
          return ended ? "ended" : "live";
        } catch (error) {
          if (error instanceof SluiceClientError && error.code === "session_not_found") return "deleted";
          throw error;
        }
      };
      yield* follow(open, parse, { ...options, stateOf });
    },
  };
}

export interface QueueOptions extends CallOptions {
  /** The `revision` of the list that the change expects. */
  readonly revision?: string | undefined;
}

/** The messages of a session that wait for their turn. */
export interface InputsClient {
  list(session: string, options?: CallOptions): Promise<InputList>;
  replace(
    session: string,
    input: string,
    content: string | ReplaceInput,
    options?: QueueOptions,
  ): Promise<InputList>;
  withdraw(session: string, input: string, options?: QueueOptions): Promise<InputList>;
  /** `revision` is that of the list whose order changes. */
  order(
    session: string,
    order: readonly string[],
    options: QueueOptions & { revision: string },
  ): Promise<InputList>;
}

export function createInputsClient(transport: Transport): InputsClient {
  const change = (
    method: "PATCH" | "PUT" | "DELETE",
    path: string,
    { revision, signal }: QueueOptions,
    json?: unknown,
  ): Promise<InputList> =>
    transport.json(path, {
      method,
      headers: { "if-match": revision === undefined ? undefined : `"${revision}"` },
      signal,
      ...(json === undefined ? {} : { json }),
    });
  return {
    list: (session, { signal } = {}) => transport.json(pathOf(session, "inputs"), { signal }),
    replace: (session, input, content, options = {}) =>
      change(
        "PATCH",
        inputPath(session, input),
        options,
        typeof content === "string" ? { message: content } : content,
      ),
    withdraw: (session, input, options = {}) => change("DELETE", inputPath(session, input), options),
    order: (session, order, options) => change("PUT", pathOf(session, "inputs"), options, { order }),
  };
}

/** The files of checkpoints, read without restoring them. */
export interface CheckpointFilesClient {
  tree(
    session: string,
    checkpoint: string,
    path?: string,
    options?: CallOptions & { recursive?: boolean; limit?: number; cursor?: string },
  ): Promise<CheckpointTree>;
  /** Streams a file of any size. */
  file(
    session: string,
    checkpoint: string,
    path: string,
    options?: CallOptions,
  ): Promise<ReadableStream<Uint8Array>>;
  /** The entries that differ, without their content. */
  changes(
    session: string,
    pair: { from: string; to: string },
    options?: CallOptions & { path?: string; limit?: number; cursor?: string },
  ): Promise<CheckpointChanges>;
  /** Streams a unified diff. */
  diff(
    session: string,
    pair: { from: string; to: string },
    options?: CallOptions & { path?: string },
  ): Promise<ReadableStream<Uint8Array>>;
}

export function createCheckpointFilesClient(transport: Transport): CheckpointFilesClient {
  const stream = async (
    path: string,
    query: Record<string, string | undefined>,
    { signal }: CallOptions,
  ): Promise<ReadableStream<Uint8Array>> => {
    const { body } = await transport.call(path, { query, signal });
    return body ?? new Blob([]).stream();
  };
  return {
    tree: (session, checkpoint, path = ".", { signal, ...query } = {}) =>
      transport.json(checkpointPath(session, checkpoint, "tree"), { query: { path, ...query }, signal }),
    file: (session, checkpoint, path, options = {}) =>
      stream(checkpointPath(session, checkpoint, "files"), { path }, options),
    changes: (session, pair, { signal, ...query } = {}) =>
      transport.json(diffPath(session, pair), { query: { names: true, ...query }, signal }),
    diff: (session, pair, { path, ...options } = {}) => stream(diffPath(session, pair), { path }, options),
  };
}

function inputPath(session: string, input: string): string {
  return pathOf(session, `inputs/${encodeURIComponent(input)}`);
}

function checkpointPath(session: string, checkpoint: string, rest: string): string {
  return pathOf(session, `checkpoints/${encodeURIComponent(checkpoint)}/${rest}`);
}

function diffPath(session: string, { from, to }: { from: string; to: string }): string {
  return checkpointPath(session, from, `diff/${encodeURIComponent(to)}`);
}

interface StreamMessage {
  readonly id?: string | undefined;
  readonly event?: string | undefined;
  readonly data: string;
}

type State = "live" | "ended" | "deleted";

/**
 * Yields the messages of one connection after the other, until `stateOf` says that there are no more, or an error that
 * no retry can solve. The end of a stream alone is no sign: proxies, and servers that shut down, end streams too.
 */
async function* follow<T>(
  open: (signal: AbortSignal) => Promise<Response>,
  parse: (message: StreamMessage) => T,
  options: Omit<SubscribeOptions, "after"> & { stateOf?: () => Promise<State> },
): AsyncGenerator<T, void> {
  const { signal = new AbortController().signal, idleTimeoutMs = IDLE_TIMEOUT_MS, onCut } = options;
  const backoff = new Backoff();
  while (!signal.aborted) {
    try {
      let isEmpty = true;
      for await (const frame of readConnection(open, { signal, idleTimeoutMs, parse })) {
        isEmpty = false;
        backoff.reset();
        yield frame;
        if (signal.aborted) return;
      }
      const state = (await options.stateOf?.()) ?? "live";
      if (state === "deleted" || (state === "ended" && isEmpty)) return;
      // The stream may have ended before the session did. The next stream has the rest, or is empty.
      if (state === "ended") continue;
      onCut?.(toStreamError("The server ended the stream."));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof SluiceClientError) || !error.retryable) throw error;
      onCut?.(error);
    }
    await backoff.wait(signal);
  }
}

function parseJson(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (error) {
    throw toStreamError(`A frame is not JSON: ${data.slice(0, 200)}`, { cause: error, retryable: false });
  }
}
