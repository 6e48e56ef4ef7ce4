import { AbstractAgent, type BaseEvent, type Message } from "@ag-ui/client";
import { AbstractAgent as AbstractAgent0 } from "ag-ui-client-0";
import { from, type Observable } from "rxjs";
import type { Told } from "../../dialects/ag-ui/oracle.ts";

/** The messages of each client generation after these events, by its own verifier and reducer. */
export interface Heard {
  readonly messages: readonly Message[];
  readonly state: unknown;
}

export async function hearBoth(told: readonly Told[]): Promise<readonly [Heard, Heard]> {
  return [await hear(new Listener(told)), await hear(new Listener0(told) as unknown as AbstractAgent)];
}

async function hear(agent: AbstractAgent): Promise<Heard> {
  await agent.runAgent();
  const { messages, state } = agent;
  return { messages, state: state as unknown };
}

class Listener extends AbstractAgent {
  readonly #told: readonly Told[];
  constructor(told: readonly Told[]) {
    super();
    this.#told = told;
  }
  run(): Observable<BaseEvent> {
    return from(structuredClone(this.#told) as unknown as BaseEvent[]);
  }
}

class Listener0 extends AbstractAgent0 {
  readonly #told: readonly Told[];
  constructor(told: readonly Told[]) {
    super();
    this.#told = told;
  }
  run(): never {
    return from(structuredClone(this.#told)) as never;
  }
}
