import { z } from "zod";
import type { AgUiView } from "../../dialects/ag-ui/index.ts";
import { RunId } from "../../dialects/ag-ui/input.ts";
import { flag, whole } from "../../dialects/universal/index.ts";

export const RunQuery = z.object({
  cancelOnDisconnect: flag().optional().describe("a client that goes ends its run"),
  raw: flag().optional().describe("with RAW events: the agent's own lines"),
  fileEvents: flag().optional().describe("false leaves sandbox.file events out"),
  bridged: flag().optional().describe("the client answers its tools while the run goes on"),
  protocolVersion: z.string().optional(),
});
export type RunQuery = z.infer<typeof RunQuery>;

export const ReadQuery = z.object({
  ...RunQuery.shape,
  threadId: z.string().min(1).optional(),
  runId: RunId.optional(),
  follow: flag().optional().describe("false ends at what there is now"),
  offset: z.string().optional().describe("-1 for the beginning, now, or the id of a frame"),
  limit: whole(1).optional().describe("of a thread at most so many messages, the last ones"),
  before: z.string().min(1).optional().describe("the cursor of the page that follows"),
});
export type ReadQuery = z.infer<typeof ReadQuery>;

/** What a reader sees of whatever run it reads. */
export function toView(query: RunQuery, protocol?: string | null): AgUiView {
  const version = protocol ?? query.protocolVersion;
  return {
    ...(version === undefined ? {} : { protocol: version }),
    ...(query.raw === true ? { raw: true } : {}),
    ...(query.fileEvents === false ? { fileEvents: false } : {}),
    ...(query.bridged === true ? { bridged: true } : {}),
  };
}
