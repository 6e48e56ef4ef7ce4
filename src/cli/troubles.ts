import type { EngineOptions } from "../sessions/index.ts";
import type { Screen } from "./screen.ts";

/** Says what no event can tell, such as that there is no room left for events; each thing once. */
export function createTroubleNotes(screen: Screen): NonNullable<EngineOptions["logger"]> {
  const said = new Set<string>();
  return ({ level, message, error }) => {
    // What is less than that stands in the log itself.
    if (level !== "error") return;
    const text = error === undefined ? message : `${message}: ${String(error)}`;
    if (said.has(text)) return;
    said.add(text);
    screen.fail(text);
  };
}
