import { harnesses } from "../../harness/index.ts";
import type { Harness } from "../../harness/port.ts";
import { findCredentials } from "../diagnostics.ts";
import type { Screen } from "../terminal/screen.ts";

const FALLBACK = "scripted";

/** The only agent that is installed here with a key or login, else the scripted one. A terminal is told which. */
export async function chooseAgent(
  screen: Screen,
  env: NodeJS.ProcessEnv = process.env,
  agents: readonly Harness[] = harnesses,
): Promise<string> {
  const ready = await findReady(env, agents);
  const [only] = ready;
  const agent = ready.length === 1 && only !== undefined ? only : FALLBACK;
  if (screen.isWatched) screen.note(toReason(agent, ready));
  return agent;
}

/** The agents that could work at once. */
async function findReady(env: NodeJS.ProcessEnv, agents: readonly Harness[]): Promise<string[]> {
  const withKey = agents.filter(({ credentials = [] }) => {
    const logins = credentials.filter((credential) => !("isCompanion" in credential));
    return findCredentials(logins, env).found.length > 0;
  });
  const detected = await Promise.all(
    withKey.map(async (harness) => {
      const { installed } = await harness.detect().catch(() => ({ installed: false }));
      return installed ? [harness.id] : [];
    }),
  );
  return detected.flat();
}

function toReason(agent: string, ready: readonly string[]): string {
  if (agent !== FALLBACK) return `The agent is ${agent}, the only one here with a key or login.`;
  const help = "choose one with --agent, or with `agent` in the config file";
  if (ready.length > 1) return `The agent is ${FALLBACK}: several have a key (${ready.join(", ")}); ${help}.`;
  return `The agent is ${FALLBACK}, which has no model: no other has a key or login here (\`sluice doctor\`).`;
}
