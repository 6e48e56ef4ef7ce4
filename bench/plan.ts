import type { Contender } from "./contenders/contender.ts";
import type { Row } from "./report/row.ts";

/** The settings of one run. */
export interface Plan {
  readonly quick: boolean;
  readonly rounds: number;
  readonly sluice: Contender;
  /** The peer, or why there is none. */
  readonly peer: Contender | { readonly absent: string };
  readonly profile?: string;
  progress(text: string): void;
}

export interface Measurement {
  readonly id: string;
  readonly title: string;
  measure(plan: Plan): Promise<Row[]>;
}

/** Alternates the contenders, so that a slow minute of the machine affects both. */
export async function alternate<T>(
  plan: Plan,
  rounds: number,
  measure: (contender: Contender, round: number) => Promise<T>,
): Promise<{ own: T[]; peer: T[]; absent?: string }> {
  const own: T[] = [];
  const peer: T[] = [];
  let absent = "absent" in plan.peer ? plan.peer.absent : undefined;
  for (let round = 0; round < rounds; round++) {
    plan.progress(`round ${round + 1} of ${rounds}`);
    own.push(await measure(plan.sluice, round));
    if (absent !== undefined || "absent" in plan.peer) continue;
    try {
      peer.push(await measure(plan.peer, round));
    } catch (error) {
      absent = `the peer failed: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  if (peer.length > 0 || absent === undefined) return { own, peer };
  return { own, peer, absent };
}

/** The servers of both contenders, each started once. */
export class Servers {
  readonly #running = new Map<Contender, ReturnType<Contender["start"]>>();

  of(contender: Contender): ReturnType<Contender["start"]> {
    const known = this.#running.get(contender);
    if (known) return known;
    const started = contender.start();
    this.#running.set(contender, started);
    return started;
  }

  async stop(): Promise<void> {
    const stopped = [...this.#running.values()].map(async (server) => (await server).stop());
    await Promise.allSettled(stopped);
  }
}
