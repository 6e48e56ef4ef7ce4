import type { Harness, HarnessFact } from "../../src/harness/port.ts";

interface State {
  readonly isReady: boolean;
}

/**
 * An agent with a handshake, from a few lines of `sh`: it is greeted with `hello`, takes nothing before it
 * has printed `ready`, and every other line that it prints is a fact as the port knows it.
 */
export function factAgent(program: string): Harness {
  const agent: Harness<State> = {
    id: "facts",
    title: "Facts",
    choices: { modes: ["build"], variants: ["high"] },
    credentials: [{ env: "FACTS_KEY" }],
    detect: async () => ({ installed: true }),
    launch: (_, { env }) => ({ argv: ["/bin/sh", "-c", program], env: { ...env } }),
    initial: () => ({ isReady: false }),
    greet: () => ["hello"],
    decode(state, line) {
      if (line.dir !== "out") return { state, facts: [] };
      if (line.text === "ready") return { state: { isReady: true }, facts: [] };
      return { state, facts: [JSON.parse(line.text) as HarnessFact] };
    },
    encode({ isReady }, command) {
      if (!isReady) return "later";
      switch (command.type) {
        case "prompt":
        case "steer":
          return [`${command.type} ${JSON.stringify(command.content)}`];
        case "permission":
          return [`permission ${command.reply}`];
        case "question":
          return [`question ${JSON.stringify(command.answers ?? null)}`];
        case "interrupt":
          return ["interrupt"];
        default:
          return undefined;
      }
    },
    sample: [],
  };
  return agent as Harness;
}

/** `sh` that prints a fact. */
export function tell(fact: unknown): string {
  return `cat <<'FACT'\n${JSON.stringify(fact)}\nFACT`;
}

export const END = {
  type: "turn.ended",
  data: { turn_id: "", status: "completed", stop_reason: "end_turn" },
};
export const STOPPED = {
  type: "turn.ended",
  data: { turn_id: "", status: "interrupted", stop_reason: "interrupted" },
};

/** `sh` that says the text of a variable as a message, quotes escaped. */
export function sayVariable(name: string, id: string): string {
  const item = `{\\"item_id\\":\\"${id}\\",\\"kind\\":\\"message\\",\\"role\\":\\"assistant\\",\\"status\\":\\"completed\\",\\"content\\":[{\\"type\\":\\"text\\",\\"text\\":\\"$text\\"}]}`;
  return `text=$(printf '%s' "$${name}" | sed 's/\\\\/\\\\\\\\/g; s/"/\\\\"/g'); printf '%s\\n' "{\\"type\\":\\"item.completed\\",\\"data\\":{\\"item\\":${item}}}"`;
}

/** `sh` that waits for the greeting, and is ready. */
export const GREETED = 'read -r hello; test "$hello" = hello || exit 9; echo ready';
