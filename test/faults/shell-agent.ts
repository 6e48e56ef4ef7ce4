import { tmpdir } from "node:os";
import type { Harness } from "../../src/harness/port.ts";

/** An agent that is whatever program it is given: each line that it prints is a message, `end` ends the turn. */
export function shellAgent(argv: readonly string[]): Harness {
  const agent: Harness<string> = {
    id: "shell",
    title: "Shell",
    detect: async () => ({ installed: true }),
    launch: () => ({ argv, env: {}, needs: argv.slice(0, 1).filter((path) => path.startsWith(tmpdir())) }),
    initial: ({ idPrefix }) => idPrefix,
    decode(state, line) {
      if (line.dir !== "out") return { state, facts: [] };
      if (line.text === "end") {
        const data = { turn_id: "", status: "completed", stop_reason: "end_turn" } as const;
        return { state, facts: [{ type: "turn.ended", data }] };
      }
      const item = {
        item_id: `${state}${line.at}`,
        kind: "message",
        role: "assistant",
        content: [{ type: "text", text: line.text }],
      } as const;
      return {
        state,
        facts: [
          { type: "item.started", data: { item: { ...item, content: [], status: "in_progress" } } },
          {
            type: "item.completed",
            data: { item: { ...item, content: [...item.content], status: "completed" } },
          },
        ],
      };
    },
    encode: (_, command) => (command.type === "prompt" ? ["prompt"] : undefined),
    sample: [],
  };
  return agent as Harness;
}

/** The same, from a few lines of `sh`. */
export function shAgent(program: string): Harness {
  return shellAgent(["/bin/sh", "-c", program]);
}
