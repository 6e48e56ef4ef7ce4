import type { AgentLine } from "../src/harness/scripted/protocol.ts";
import { DELTA_BYTES } from "./contender.ts";

const DELTAS_PER_MESSAGE = 400;

/** One turn of so many native lines, nearly all of them text deltas, as the scripted agent prints them. */
export function nativeTurn(lines: number): string[] {
  const said: AgentLine[] = [
    { type: "turn.started", turn: 1 },
    { type: "model.started", id: "req_1" },
  ];
  while (said.length < lines - 4) {
    const id = `msg_${said.length}`;
    const room = Math.min(DELTAS_PER_MESSAGE, lines - said.length - 4);
    const deltas = Array.from({ length: room }, (_, n) =>
      `${n} some "quoted" words`.padEnd(DELTA_BYTES, "~"),
    );
    said.push({ type: "text.started", id });
    for (const text of deltas) said.push({ type: "text.delta", id, text });
    said.push({ type: "text.ended", id, text: deltas.join("") });
  }
  said.push({ type: "model.ended", id: "req_1", usage: { output_tokens: lines }, estimated: true });
  said.push({ type: "turn.ended", turn: 1, stop_reason: "end_turn" });
  return said.map((line) => JSON.stringify(line));
}
