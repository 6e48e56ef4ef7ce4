import { EVENT_DATA, type EventType } from "../../../src/contract/index.ts";
import type { HarnessFact } from "../../../src/harness/port.ts";

/** Expects that the data of each fact follows the contract, key by key. */
export function expectLegal(facts: readonly HarnessFact[]): void {
  for (const fact of facts) {
    if (fact.type === "model.failed") continue;
    const parsed = EVENT_DATA[fact.type satisfies EventType].safeParse(fact.data);
    if (!parsed.success)
      throw new Error(`${fact.type} ${JSON.stringify(fact.data)}: ${parsed.error.message}`);
  }
}
