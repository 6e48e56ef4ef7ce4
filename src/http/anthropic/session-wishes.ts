import { refuse, unsupported } from "../../dialects/anthropic/resources/refusal.ts";
import type { AnthropicServices } from "./services.ts";

/** What a session may not be asked to be, when it is made and later. */

export async function assertVaults(
  { shelves }: AnthropicServices,
  owner: string,
  ids: readonly string[],
): Promise<void> {
  for (const id of ids) {
    const vault = await shelves.vaults.get(owner, id);
    if (vault.body.archived_at !== null) throw refuse(`vault_ids: ${id} is archived.`);
  }
}

export function assertNoBudget({ budget }: { budget?: unknown }): void {
  if (budget !== undefined && budget !== null) throw unsupported("budget: limits of cost are");
}
