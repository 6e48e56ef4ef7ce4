import type { Context } from "hono";
import type { Frame } from "../../dialects/port.ts";
import type { Framing } from "../chunk.ts";
import type { AppEnv } from "../env.ts";
import { sse, SSE_HEADERS, type StreamFormat } from "../sse.ts";

const PROTO = "application/vnd.ag-ui.event+proto";
const NDJSON = "application/x-ndjson";

/** How the client wants its events: as it says, else as server-sent events. */
export async function chooseFormat(c: Context<AppEnv>): Promise<StreamFormat> {
  const accept = c.req.header("accept") ?? "";
  if (accept.includes(PROTO)) return (await readProto()) ?? SSE_FORMAT;
  return accept.includes(NDJSON) ? NDJSON_FORMAT : SSE_FORMAT;
}

export async function speaksProto(): Promise<boolean> {
  return (await readProto()) !== undefined;
}

/** Frames before the first one of the log, such as those that open what a late reader has not seen begin. */
export function withPrelude(format: StreamFormat, frames: readonly Frame[]): StreamFormat {
  const text = frames.map((frame) => format.framing.frame(frame, undefined)).join("");
  return { ...format, prelude: `${format.prelude ?? ""}${text}` };
}

const SSE_FORMAT: StreamFormat = {
  framing: sse,
  headers: SSE_HEADERS,
  prelude: ": sluice\nretry: 1000\n\n",
  ping: ": ping\n\n",
};

const ndjson: Framing = {
  id: "ag-ui-ndjson",
  frame: ({ data, id }) => (id ? `{"id":${JSON.stringify(id)},"chunk":${data}}\n` : `${data}\n`),
};

// Clients skip empty lines.
const NDJSON_FORMAT: StreamFormat = {
  framing: ndjson,
  headers: { ...SSE_HEADERS, "content-type": `${NDJSON}; charset=utf-8` },
  ping: "\n",
};

let proto: Promise<StreamFormat | undefined> | undefined;

/** Only where the package that knows the encoding is installed beside us. */
function readProto(): Promise<StreamFormat | undefined> {
  proto ??= import("@ag-ui/proto").then(
    ({ encode }) => toProtoFormat(encode as unknown as (event: unknown) => Uint8Array),
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
