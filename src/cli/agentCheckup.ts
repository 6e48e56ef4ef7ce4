import { existsSync } from "node:fs";
import { join } from "node:path";
import { coverageOf } from "../harness/index.ts";
import type { Choices, Credential, Detected, Harness } from "../harness/port.ts";
import { homeFolder } from "../sandbox/homeFolder.ts";

/** What this machine has of one agent: its CLI, a key for it, and what may be chosen. */
export interface AgentCheckup {
  readonly ok: boolean;
  readonly id: string;
  readonly title: string;
  readonly version?: string;
  /** Why not, or what to do. */
  readonly hint?: string;
  /** How many of the coverage matrix's features its adapter has. */
  readonly features?: number;
  /** Where its keys are, and where they could be: names of variables and files, never what is in them. */
  readonly credentials?: { readonly found: readonly string[]; readonly known: readonly string[] };
  readonly choices?: Choices;
}

export async function checkAgent(harness: Harness, env: NodeJS.ProcessEnv): Promise<AgentCheckup> {
  const { installed, version, hint } = await detect(harness);
  const features = countFeatures(harness);
  const credentials = findCredentials(harness.credentials ?? [], env);
  const advice = hint ?? (installed ? keyHint(credentials) : undefined);
  return {
    ok: installed,
    id: harness.id,
    title: harness.title,
    ...(version === undefined ? {} : { version }),
    ...(advice === undefined ? {} : { hint: advice }),
    ...(features === undefined ? {} : { features }),
    ...(harness.credentials === undefined ? {} : { credentials }),
    ...(harness.choices === undefined ? {} : { choices: harness.choices }),
  };
}

/** One agent that cannot even be looked for must not hide the others. */
async function detect(harness: Harness): Promise<Detected> {
  return harness
    .detect({ withVersion: true })
    .catch((error: Error) => ({ installed: false, hint: error.message }));
}

function findCredentials(
  credentials: readonly Credential[],
  env: NodeJS.ProcessEnv,
): NonNullable<AgentCheckup["credentials"]> {
  const home = homeFolder(env);
  const isThere = (credential: Credential): boolean =>
    "env" in credential ? Boolean(env[credential.env]) : existsSync(join(home, credential.file));
  return { found: credentials.filter(isThere).map(nameOf), known: credentials.map(nameOf) };
}

function nameOf(credential: Credential): string {
  return "env" in credential ? credential.env : `~/${credential.file}`;
}

function keyHint({ found, known }: NonNullable<AgentCheckup["credentials"]>): string | undefined {
  if (found.length > 0 || known.length === 0) return undefined;
  const variables = known.filter((name) => !name.startsWith("~"));
  const files = known.filter((name) => name.startsWith("~"));
  const ways = [
    ...(variables.length === 0 ? [] : [`set ${variables.join(" or ")}`]),
    ...(files.length === 0 ? [] : [`log in with its own CLI (${files.join(", ")})`]),
  ];
  return `no key found: ${ways.join(", or ")}`;
}

/** An adapter may need its CLI to say how it would be started. */
function countFeatures(harness: Harness): number | undefined {
  try {
    return Object.values(coverageOf(harness)).filter(Boolean).length;
  } catch {
    return undefined;
  }
}
