import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded } from "../port.ts";
import { isRecord } from "../rpc.ts";
import { parseObject } from "../unparsed.ts";
import { decodeAcpForm, speaksAcp } from "./acp-form.ts";
import { readAnswer } from "./answers.ts";
import { readEvent } from "./events.ts";
import { Page } from "./page.ts";
import { readRequest } from "./requests.ts";
import { endRun, readRunLine } from "./run.ts";
import type { OpencodeState } from "./state.ts";

/**
 * One line of OpenCode as facts. The bridge's lines are the server's own words, so what a recording calls `sse` and
 * `http-out` is told apart by its shape, and a live `out` line is read by the same code. Never throws.
 */
export function decode(state: OpencodeState, line: SpoolLine): Decoded<OpencodeState> {
  if (speaksAcp(state, line)) return decodeAcpForm(state, line);
  switch (line.dir) {
    case "in":
    case "http-in":
      return { state: readRequest(state, line), facts: [] };
    case "out":
    case "sse":
    case "http-out":
      return read(state, line);
    case "exit":
      return endRun(state, line);
    default:
      return { state, facts: [] };
  }
}

function read(state: OpencodeState, line: SpoolLine): Decoded<OpencodeState> {
  const page = new Page(state);
  const value = parseObject(line);
  const problem = typeof value === "string" ? value : readValue(page, value);
  if (problem !== undefined) page.scribe.unparsed(line, problem);
  return page.decoded;
}

/** Why the line means nothing to us, if it does not. */
function readValue(page: Page, value: Record<string, unknown>): string | undefined {
  const { type, properties, path, status, sessionID } = value;
  if (typeof type === "string" && isRecord(properties))
    return readEvent(page, { ...value, type, properties });
  if (typeof path === "string" && typeof status === "number")
    return readAnswer(page, { ...value, path, status });
  if (typeof type === "string" && typeof sessionID === "string") return readRunLine(page, { ...value, type });
  return `unknown shape: ${Object.keys(value).slice(0, 8).join(", ")}`;
}
