import type { ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";

interface LedAgent {
  readonly agent: AgentId;
  /** The variables of its key and of its model's address, and the address below the scripted model's. */
  readonly variable: string;
  readonly address: string;
  readonly path: string;
  /** A model that the CLI takes; undefined for its default. */
  readonly model: string | undefined;
  readonly wire: string;
}

const ROWS: readonly LedAgent[] = [
  {
    agent: "claude",
    variable: "ANTHROPIC_API_KEY",
    address: "ANTHROPIC_BASE_URL",
    path: "",
    model: "claude-sonnet-4-5",
    wire: "anthropic",
  },
  {
    agent: "codex",
    variable: "OPENAI_API_KEY",
    address: "OPENAI_BASE_URL",
    path: "/v1",
    model: "gpt-5.5",
    wire: "responses",
  },
  {
    agent: "opencode",
    variable: "OPENAI_API_KEY",
    address: "OPENAI_BASE_URL",
    path: "/v1",
    model: "scripted",
    wire: "chat",
  },
  {
    agent: "gemini",
    variable: "GEMINI_API_KEY",
    address: "GOOGLE_GEMINI_BASE_URL",
    path: "",
    model: "gemini-2.5-pro",
    wire: "gemini",
  },
  {
    agent: "grok",
    variable: "XAI_API_KEY",
    address: "XAI_BASE_URL",
    path: "/v1",
    model: undefined,
    wire: "chat",
  },
];

/** The agents that the gateway leads, each with the reason for which this machine cannot run it. */
export const LED_AGENTS: readonly (LedAgent & { readonly reason: string | undefined })[] = ROWS.map(
  (row) => ({
    ...row,
    reason: requireAgent(row.agent).reason,
  }),
);

/** The environment of a server whose agents all ask a scripted model. */
export function toServerEnv({ url }: ScriptedModel): Record<string, string> {
  return Object.fromEntries(
    ROWS.flatMap(({ variable, address, path }) => [
      [variable, "sk-any-key-will-do-here"],
      [address, url + path],
    ]),
  );
}
