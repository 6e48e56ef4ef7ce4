import { describe } from "vitest";
import { codex } from "../../../src/harness/codex/harness.ts";
import { requireAgent } from "../../support/agents.ts";
import { type AgentBench, openBench, type ToSpec } from "../agentBench.ts";

const { path, reason } = requireAgent("codex");
const toSpec: ToSpec = ({ url }) => ({
  agent: "codex",
  model: "gpt-5.5",
  watch: false,
  env: { OPENAI_BASE_URL: `${url}/v1` },
});

/** Tests of the real Codex, each file with a bench of its own; skipped where there is none. */
export function describeCodex(tests: () => void): void {
  const title = `the real Codex${reason === undefined ? "" : ` (${reason})`}`;
  describe.skipIf(path === undefined)(title, { timeout: 90_000 }, tests);
}

export function openCodex(): Promise<AgentBench> {
  return openBench(codex, toSpec);
}
