import { createHash } from "node:crypto";
import type { SpoolLine } from "../contract/index.ts";
import type { HarnessFact } from "./port.ts";

/** The fact of a line that no decoder understands. Such a line is kept and never fatal. */
export function unparsedFact(line: SpoolLine, error: string): HarnessFact {
  const hash = line.damage?.sha256 ?? createHash("sha256").update(line.text).digest("hex");
  return { type: "agent.unparsed", data: { error, location: `${line.dir}:${line.at}`, raw_hash: hash } };
}
