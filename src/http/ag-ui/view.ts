import type { Context } from "hono";
import { z } from "zod";
import type { AgUiView } from "../../dialects/ag-ui/index.ts";
import { RunId } from "../../dialects/ag-ui/parse.ts";
import type { Frame } from "../../dialects/port.ts";
import { flag, whole } from "../../dialects/universal/index.ts";
import type { AppEnv } from "../context.ts";
import type { Framing } from "../stream/chunk.ts";
import { SSE_FORMAT, SSE_HEADERS, type StreamFormat } from "../stream/sse.ts";

export const RunQuery = z.object({
  cancelOnDisconnect: flag().optional().describe("the run ends when its client disconnects"),
  raw: flag().optional().describe("adds RAW events: the agent's own lines"),
  fileEvents: flag().optional().describe("false leaves sandbox.file events out"),
  bridged: flag().optional().describe("the client answers its tools during the run"),
  protocolVersion: z.string().optional(),
});
export type RunQuery = z.infer<typeof RunQuery>;

export const ReadQuery = z.object({
  ...RunQuery.shape,
  threadId: z.string().min(1).optional(),
  runId: RunId.optional(),
  follow: flag().optional().describe("false ends the stream at the newest event"),
  offset: z.string().optional().describe("-1 for the beginning, now, or the id of a frame"),
  limit: whole(1).optional().describe("the maximum count of a thread's messages, the newest ones"),
  before: z.string().min(1).optional().describe("the cursor of the next page"),
});
export type ReadQuery = z.infer<typeof ReadQuery>;

/** The view that a query asks for, before its run and thread are known. */
export function toView(query: RunQuery, protocol?: string | null): AgUiView {
  const version = protocol ?? query.protocolVersion;
  return {
    ...(version === undefined ? {} : { protocol: version }),
    ...(query.raw === true ? { raw: true } : {}),
    ...(query.fileEvents === false ? { fileEvents: false } : {}),
    ...(query.bridged === true ? { bridged: true } : {}),
  };
}

const PROTO = "application/vnd.ag-ui.event+proto";
const NDJSON = "application/x-ndjson";

/** The format of the `Accept` header; server-sent events unless it names another one. */
export async function chooseFormat(c: Context<AppEnv>): Promise<StreamFormat> {
  const accept = c.req.header("accept") ?? "";
  if (accept.includes(PROTO)) return (await readProto()) ?? SSE_FORMAT;
  return accept.includes(NDJSON) ? NDJSON_FORMAT : SSE_FORMAT;
}

export async function speaksProto(): Promise<boolean> {
  return (await readProto()) !== undefined;
}

/** Adds frames before the first one of the log. */
export function withPrelude(format: StreamFormat, frames: readonly Frame[]): StreamFormat {
  const text = frames.map((frame) => format.framing.frame(frame, undefined)).join("");
  return { ...format, prelude: `${format.prelude ?? ""}${text}` };
}

const ndjson: Framing = {
  id: "ag-ui-ndjson",
  frame: ({ data, id }) => (id ? `{"id":${JSON.stringify(id)},"chunk":${data}}\n` : `${data}\n`),
};

// A ping is an empty line, which clients skip.
const NDJSON_FORMAT: StreamFormat = {
  framing: ndjson,
  headers: { ...SSE_HEADERS, "content-type": `${NDJSON}; charset=utf-8` },
  ping: "\n",
};

let proto: Promise<StreamFormat | undefined> | undefined;

/** Undefined if the package of the encoding is not installed. */
function readProto(): Promise<StreamFormat | undefined> {
  proto ??= import("@ag-ui/proto").then(
    ({ encode }) => toProtoFormat((event) => encode(event as Parameters<typeof encode>[0])),
    () => undefined,
  );
  return proto;
}

function toProtoFormat(encode: (event: unknown) => Uint8Array): StreamFormat {
  const framing: Framing = {
    id: "ag-ui-proto",
    encoding: "latin1",
    frame({ data }) {
      const message = Buffer.from(encode(JSON.parse(data)));
      const length = Buffer.alloc(4);
      length.writeUInt32BE(message.length);
      return length.toString("latin1") + message.toString("latin1");
    },
  };
  return { framing, headers: { ...SSE_HEADERS, "content-type": PROTO } };
}
