/** What agents are called where they are known by another name than ours. */
const NAMES: Readonly<Record<string, string>> = { claude: "claude-code", grok: "grok-build" };
const AGENTS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(NAMES).map(([agent, name]) => [name, agent]),
);

export function toSessionIdEvent(agent: string | null, sessionId: string): object {
  return { type: "CUSTOM", name: `${toHarnessName(agent ?? "agent")}.session-id`, value: { sessionId } };
}

export function toHarnessName(agent: string): string {
  return Object.hasOwn(NAMES, agent) ? (NAMES[agent] as string) : agent;
}

/** The agent that a client means, by either name. */
export function toAgentId(name: string): string {
  return Object.hasOwn(AGENTS, name) ? (AGENTS[name] as string) : name;
}
