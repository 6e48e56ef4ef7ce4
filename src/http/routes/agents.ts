import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";

export function mountAgents(mount: Mount, { engine }: Services): void {
  mount(operations.listAgents, async ({ c }) => c.json({ agents: await engine.agents() }));
}
