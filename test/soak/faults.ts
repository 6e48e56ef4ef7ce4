import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestServer } from "../support/server.ts";
import { Chance } from "./chance.ts";
import type { Disk } from "./disk.ts";
import { findProcesses, killIfThere, type Role } from "./processes.ts";

export interface Scene {
  readonly server: TestServer;
  readonly disk: Disk;
  /** Holds by how many milliseconds the server's clock is wrong. */
  readonly clock: string;
  /** The faults so far, in order. */
  readonly journal: string[];
}

const HOUR_MS = 3_600_000;

type Strike = (scene: Scene, chance: Chance) => Promise<boolean>;

/** Faults of the server and its machine, one after the other, with their share. */
const TO_SERVER = {
  server: { share: 6, strike: (scene) => restart(scene, () => scene.server.kill()) },
  stop: { share: 1, strike: (scene) => restart(scene, () => scene.server.stop()) },
  disk: { share: 1, strike: fillDisk },
  clock: { share: 1, strike: shiftClock },
} satisfies Record<string, { share: number; strike: Strike }>;

/** Faults of the processes beside it, at the same time. */
const TO_PROCESSES = {
  agent: { share: 5, strike: (scene, chance) => killOne(scene, "agent", chance) },
  wrapper: { share: 3, strike: (scene, chance) => killOne(scene, "wrapper", chance) },
  tail: { share: 5, strike: (scene, chance) => killOne(scene, "tail", chance) },
  egress: { share: 5, strike: (scene, chance) => killOne(scene, "egress", chance) },
  caretaker: { share: 1, strike: (scene, chance) => killOne(scene, "caretaker", chance) },
} satisfies Record<string, { share: number; strike: Strike }>;

export type Fault = keyof typeof TO_SERVER | keyof typeof TO_PROCESSES;
export type Counts = Partial<Record<Fault, number>>;

/** The faults that kill a process. */
export const KILLS: readonly Fault[] = ["server", "agent", "wrapper", "tail", "egress", "caretaker"];

/** Causes both kinds of faults until it is over. The seed makes each sequence repeatable. */
export async function strikeUntil(
  isOver: () => boolean,
  scene: Scene,
  { seed, counts, doing }: { seed: number; counts: Counts; doing: Map<string, string> },
): Promise<void> {
  const strikeBy = async (
    faults: Record<string, { share: number; strike: Strike }>,
    { chance, pauseMs }: { chance: Chance; pauseMs: number },
  ): Promise<void> => {
    const lot = Object.entries(faults).flatMap(([name, { share }]) => Array<string>(share).fill(name));
    for (; !isOver(); await sleep(chance.below(pauseMs))) {
      const name = chance.pick(lot);
      doing.set(`faults of ${lot[0]}`, name);
      if (await faults[name]?.strike(scene, chance)) counts[name as Fault] = (counts[name as Fault] ?? 0) + 1;
    }
    doing.delete(`faults of ${lot[0]}`);
  };
  await Promise.all([
    strikeBy(TO_SERVER, { chance: new Chance(seed), pauseMs: 3_000 }),
    strikeBy(TO_PROCESSES, { chance: new Chance(seed ^ 0x5eed), pauseMs: 250 }),
  ]);
}

function note({ journal }: Scene, what: string): void {
  journal.push(`${new Date().toISOString()} ${what}`);
}

async function restart(scene: Scene, end: () => Promise<unknown>): Promise<boolean> {
  note(scene, "the server ends");
  await end();
  await scene.server.start();
  note(scene, "the server is back");
  return true;
}

async function killOne(scene: Scene, role: Role, chance: Chance): Promise<boolean> {
  const found = (await findProcesses(scene.server)).filter((one) => one.role === role);
  if (found.length === 0) return false;
  const { pid, command, of } = chance.pick(found);
  if (!killIfThere(pid)) return false;
  note(scene, `${role} ${pid} of ${of}: ${command.slice(0, 200)}`);
  return true;
}

/** For a moment; sometimes the server is killed meanwhile. */
async function fillDisk(scene: Scene, chance: Chance): Promise<boolean> {
  const { server, disk } = scene;
  if (!disk.canFill) return false;
  note(scene, "the disk is full");
  await disk.fill();
  await sleep(chance.below(1_500));
  const isKilled = chance.is(0.3);
  if (isKilled) await server.kill();
  await disk.free();
  if (isKilled) await server.start();
  note(scene, `the disk is free${isKilled ? ", and the server was killed" : ""}`);
  return true;
}

async function shiftClock(scene: Scene, chance: Chance): Promise<boolean> {
  const hours = chance.below(49) - 24;
  await writeFile(scene.clock, String(hours * HOUR_MS));
  note(scene, `the clock is wrong by ${hours} h`);
  return true;
}
