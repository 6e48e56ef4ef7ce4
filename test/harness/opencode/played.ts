import type { SpoolLine } from "../../../src/contract/index.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { HarnessFact } from "../../../src/harness/port.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { sample } from "./sample.ts";

export type State = ReturnType<typeof opencode.initial>;

export function prompt(session: string): SpoolLine {
  const path = `/session/${session}/prompt_async`;
  return { dir: "http-in", text: JSON.stringify({ method: "POST", path, body: { parts: [] } }), at: 0 };
}

export function sse(type: string, properties: unknown): SpoolLine {
  return { dir: "out", text: JSON.stringify({ id: "evt_1", type, properties }), at: 0 };
}

export function play(
  lines: readonly SpoolLine[],
  first: State = opencode.initial(recordedContext("opencode")),
): { state: State; facts: HarnessFact[] } {
  const facts: HarnessFact[] = [];
  let state = first;
  for (const line of lines) {
    const decoded = opencode.decode(state, line);
    facts.push(...decoded.facts);
    state = decoded.state;
  }
  return { state, facts };
}

export function afterSample(): State {
  return play(sample).state;
}
