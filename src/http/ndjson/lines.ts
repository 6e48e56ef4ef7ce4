import type { StreamFormat } from "../sse.ts";

/** One JSON object per line and nothing else: no prelude, and no ping, which would be a line that says nothing. */
export const LINES: StreamFormat = {
  framing: { id: "ndjson", frame: ({ data }) => `${data}\n` },
  headers: {
    "content-type": "application/x-ndjson",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    connection: "keep-alive",
  },
};
