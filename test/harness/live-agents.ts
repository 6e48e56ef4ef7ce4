import { describe } from "vitest";
import { claude } from "../../src/harness/claude/harness.ts";
import { codex } from "../../src/harness/codex/harness.ts";
import { gemini } from "../../src/harness/gemini/harness.ts";
import { grok } from "../../src/harness/grok/harness.ts";
import { opencode } from "../../src/harness/opencode/harness.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { type AgentBench, openBench, type ToSpec } from "./agent-bench.ts";

type BenchOptions = Parameters<typeof openBench>[2];

/** A real CLI whose sessions use the scripted model. */
export interface LiveAgent {
  readonly title: string;
  /** Set where the CLI is missing. */
  readonly reason: string | undefined;
  open(options?: BenchOptions): Promise<AgentBench>;
}

export const CLAUDE_KEY = "sk-ant-test-0123456789abcdefghij";

export const CLAUDE = live("claude", "Claude Code", claude, ({ url }) => ({
  agent: "claude",
  model: "claude-sonnet-4-5",
  env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: CLAUDE_KEY },
}));

export const CODEX = live("codex", "Codex", codex, ({ url }) => ({
  agent: "codex",
  model: "gpt-5.5",
  watch: false,
  env: { OPENAI_BASE_URL: `${url}/v1` },
}));

export const OPENCODE = live("opencode", "OpenCode", opencode, ({ url }) => ({
  agent: "opencode",
  model: "scripted",
  env: { OPENAI_BASE_URL: `${url}/v1` },
}));

export const GEMINI = live("gemini", "Gemini CLI", gemini, ({ url }) => ({
  agent: "gemini",
  model: "gemini-2.5-pro",
  env: { GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "AIza-test-0123456789abcdefghij" },
}));

export const GROK = live("grok", "Grok Build", grok, ({ url }) => ({
  agent: "grok",
  env: { XAI_BASE_URL: `${url}/v1`, XAI_API_KEY: "xai-test-0123456789abcdefghij" },
}));

function live(
  id: AgentId,
  title: string,
  harness: Parameters<typeof openBench>[0],
  toSpec: ToSpec,
): LiveAgent {
  return {
    title,
    get reason() {
      return requireAgent(id).reason;
    },
    open: (options) => openBench(harness, toSpec, options),
  };
}

/** Tests of a real CLI; skipped with the reason where it is missing. */
export function describeLive({ title, reason }: LiveAgent, timeout: number, tests: () => void): void {
  const suffix = reason === undefined ? "" : ` (skipped: ${reason})`;
  describe.skipIf(reason !== undefined)(`${title}, the real one${suffix}`, { timeout }, tests);
}
