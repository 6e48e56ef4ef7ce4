import { createHash } from "node:crypto";
import { findJsonExcess, MAX_JSON_DEPTH, MAX_JSON_VALUES, type SpoolLine } from "../contract/index.ts";
import type { HarnessFact } from "./port.ts";
import { isRecord } from "./fields.ts";

/** The fact of a line that no decoder understands. Such a line is kept and never fatal. */
export function unparsedFact(line: SpoolLine, error: string): HarnessFact {
  const hash = line.damage?.sha256 ?? createHash("sha256").update(line.text).digest("hex");
  return { type: "agent.unparsed", data: { error, location: `${line.dir}:${line.at}`, raw_hash: hash } };
}

/** The JSON object of a line, or the reason why there is none. */
export function parseObject(line: SpoolLine): Record<string, unknown> | string {
  if (line.damage !== undefined) {
    const why = line.damage.reason === "utf8" ? "is not valid UTF-8" : "is too long";
    return `a line of ${line.damage.bytes} bytes ${why}`;
  }
  const excess = findJsonExcess(line.text);
  if (excess === "depth") return `the line is nested more than ${MAX_JSON_DEPTH} levels deep`;
  if (excess === "values") return `the line holds more than ${MAX_JSON_VALUES} values`;
  try {
    const value: unknown = JSON.parse(line.text);
    if (isRecord(value)) return value;
  } catch {
    // Reported below.
  }
  return "the line is not a JSON object";
}
