import { SessionId } from "../../contract/index.ts";
import { CliFailure, EXIT } from "../failure.ts";

/** What a person names at one end of a copy. */
export type Place =
  | { readonly kind: "local"; readonly path: string }
  /** An id may have colons in it, so there may be several readings; the first that exists is meant. */
  | { readonly kind: "sandbox"; readonly readings: readonly SandboxPath[] };

export interface SandboxPath {
  readonly session: string;
  readonly path: string;
}

/** `SESSION:PATH`, or a local path; `./a:b` is always local. */
export function parsePlace(text: string): Place {
  if (text === "")
    throw new CliFailure('A path is empty. "." is this folder, SESSION:. the workspace.', EXIT.usage);
  const readings: SandboxPath[] = [];
  for (let colon = text.indexOf(":"); colon > 0; colon = text.indexOf(":", colon + 1)) {
    const session = text.slice(0, colon);
    if (!SessionId.safeParse(session).success) break;
    readings.push({ session, path: text.slice(colon + 1) || "." });
  }
  return readings.length > 0 ? { kind: "sandbox", readings } : { kind: "local", path: text };
}
