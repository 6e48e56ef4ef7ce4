import { SluiceError } from "../../contract/index.ts";
import type { TanStackClone, TanStackGit, TanStackProcess } from "./contract.ts";

/** A credential helper that reads the token from the environment, so that no command line has it. */
const HELPER = '!f() { echo "username=${SLUICE_GIT_USER}"; echo "password=${SLUICE_GIT_TOKEN}"; }; f';

const CLONE_FOLDER = ".sluice-clone";

/** Runs the sandbox's `git`; an error has git's message. `toPath` maps a folder, or returns the workspace. */
export function createGit(process: TanStackProcess, toPath: (dir?: string) => string): TanStackGit {
  const run = async (before: string, verb: string, rest = "", env = {}): Promise<string> => {
    const command = `git ${before} ${verb} ${rest}`;
    const ended = await process.exec(command, { env: { GIT_TERMINAL_PROMPT: "0", ...env } });
    const { exitCode, stdout, stderr } = ended;
    if (exitCode === 0) return stdout;
    const detail = `git ${verb} failed (${exitCode}): ${(stderr || stdout).trim()}`;
    throw new SluiceError("invalid_request", detail, { exitCode });
  };
  const at = (dir: string | undefined): string => `-C ${quoteName(toPath(dir))}`;
  return {
    clone: async ({ url, dir, ref, auth, depth = 1 }) => {
      const target = toPath(dir);
      // Git clones only into an empty folder, and a workspace has an output folder after its first command.
      const isWorkspace = target === toPath() || target === "/workspace";
      const into = isWorkspace ? `${target}/${CLONE_FOLDER}` : target;
      if (isWorkspace) await demandEmpty(process, target);
      const rest = [
        ...(ref === undefined ? [] : [`--branch ${quoteName(ref)}`]),
        ...(depth === "full" ? [] : [`--depth ${toDepth(depth)} --single-branch`]),
        ...(isWorkspace ? ["--no-checkout"] : []),
        `-- ${quoteName(url)} ${quoteName(into)}`,
      ];
      const helper = auth ? `-c credential.helper=${quote(HELPER)}` : "";
      await run(helper, "clone", rest.join(" "), toSecrets(auth));
      if (isWorkspace) await unfold(process, target);
    },
    status: (dir) => run(at(dir), "status", "--porcelain"),
    add: async (paths, dir) => void (await run(at(dir), "add", `-- ${paths.map(quoteName).join(" ")}`)),
    commit: async (message, dir) => void (await run(at(dir), "commit", `-m ${quote(message)}`)),
    push: async (dir) => void (await run(at(dir), "push")),
    pull: async (dir) => void (await run(at(dir), "pull")),
    branch: async (dir) => (await run(at(dir), "rev-parse", "--abbrev-ref HEAD")).trim(),
  };
}

async function demandEmpty(process: TanStackProcess, folder: string): Promise<void> {
  const { stdout } = await process.exec(`ls -A ${quote(folder)}`);
  const names = stdout.split("\n").filter((name) => name !== "" && name !== "output");
  if (names.length === 0) return;
  const detail = `There is ${names[0]} in ${folder} already. Clone into another folder, or into a fresh sandbox.`;
  throw new SluiceError("invalid_request", detail);
}

/** Moves the clone's `.git` into the folder and checks it out, unless it has no commit. */
async function unfold(process: TanStackProcess, folder: string): Promise<void> {
  const { exitCode, stderr } = await process.exec(
    `mv ${CLONE_FOLDER}/.git .git && rmdir ${CLONE_FOLDER} && { ! git rev-parse -q --verify HEAD >/dev/null || git reset -q --hard; }`,
    { cwd: folder },
  );
  if (exitCode !== 0) throw new SluiceError("internal", `The clone could not be checked out: ${stderr}`);
}

function toSecrets(auth: TanStackClone["auth"]): Record<string, string> {
  if (!auth) return {};
  return { SLUICE_GIT_USER: auth.username ?? "x-access-token", SLUICE_GIT_TOKEN: auth.token };
}

/** Quotes a name; refuses one that git would read as an option. */
function quoteName(value: string): string {
  if (!value.startsWith("-")) return quote(value);
  const detail = `${JSON.stringify(value)} looks like an option of git. Use another name.`;
  throw new SluiceError("invalid_request", detail);
}

function quote(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`;
}

function toDepth(depth: number): number {
  if (Number.isInteger(depth) && depth > 0) return depth;
  throw new SluiceError("invalid_request", 'The depth of a clone is a whole number above 0, or "full".');
}
