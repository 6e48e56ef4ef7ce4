import type { StreamFormat } from "../sse.ts";

/** One JSON object per line and nothing else: no prelude. */
export const LINES: StreamFormat = {
  framing: { id: "ndjson", frame: ({ data }) => `${data}\n` },
  // Proxies and Node's own fetch give a silent answer up, and that would cancel the run. JSON may begin with a space.
  ping: " ",
  headers: {
    "content-type": "application/x-ndjson",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    connection: "keep-alive",
  },
};
