import { SluiceError } from "../../contract/index.ts";
import type { TanStackClone, TanStackGit, TanStackProcess } from "./contract.ts";

/** Read by git's own shell from the environment, so that no token stands in a command line. */
const HELPER = '!f() { echo "username=${SLUICE_GIT_USER}"; echo "password=${SLUICE_GIT_TOKEN}"; }; f';

const STAGE = ".sluice-clone";

/** Git in the sandbox, by its own `git`. What git refuses is an error, with its words. `place` is the workspace, or a folder by its path inside. */
export function createGit(process: TanStackProcess, place: (dir?: string) => string): TanStackGit {
  const run = async (before: string, verb: string, rest = "", env = {}): Promise<string> => {
    const command = `git ${before} ${verb} ${rest}`;
    const ended = await process.exec(command, { env: { GIT_TERMINAL_PROMPT: "0", ...env } });
    const { exitCode, stdout, stderr } = ended;
    if (exitCode === 0) return stdout;
    const detail = `git ${verb} failed (${exitCode}): ${(stderr || stdout).trim()}`;
    throw new SluiceError("invalid_request", detail, { exitCode });
  };
  const at = (dir: string | undefined): string => `-C ${named(place(dir))}`;
  return {
    clone: async ({ url, dir, ref, auth, depth = 1 }) => {
      const target = place(dir);
      // A workspace has a folder for outputs from its first command on, and git clones into nothing but an empty one.
      const isWorkspace = target === place() || target === "/workspace";
      const into = isWorkspace ? `${target}/${STAGE}` : target;
      if (isWorkspace) await demandEmpty(process, target);
      const rest = [
        ...(ref === undefined ? [] : [`--branch ${named(ref)}`]),
        ...(depth === "full" ? [] : [`--depth ${toDepth(depth)} --single-branch`]),
        ...(isWorkspace ? ["--no-checkout"] : []),
        `-- ${named(url)} ${named(into)}`,
      ];
      const helper = auth ? `-c credential.helper=${quote(HELPER)}` : "";
      await run(helper, "clone", rest.join(" "), toSecrets(auth));
      if (isWorkspace) await unfold(process, target);
    },
    status: (dir) => run(at(dir), "status", "--porcelain"),
    add: async (paths, dir) => void (await run(at(dir), "add", `-- ${paths.map(named).join(" ")}`)),
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

/** Makes the folder what was cloned below it; a repository without a commit has nothing to check out. */
async function unfold(process: TanStackProcess, folder: string): Promise<void> {
  const { exitCode, stderr } = await process.exec(
    `mv ${STAGE}/.git .git && rmdir ${STAGE} && { ! git rev-parse -q --verify HEAD >/dev/null || git reset -q --hard; }`,
    { cwd: folder },
  );
  if (exitCode !== 0)
    throw new SluiceError("internal", `What was cloned could not be checked out: ${stderr}`);
}

function toSecrets(auth: TanStackClone["auth"]): Record<string, string> {
  if (!auth) return {};
  return { SLUICE_GIT_USER: auth.username ?? "x-access-token", SLUICE_GIT_TOKEN: auth.token };
}

/** A name that comes from elsewhere cannot be an option. */
function named(value: string): string {
  if (!value.startsWith("-")) return quote(value);
  throw new SluiceError("invalid_request", `${JSON.stringify(value)} would be taken for an option of git.`);
}

function quote(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`;
}

function toDepth(depth: number): number {
  if (Number.isInteger(depth) && depth > 0) return depth;
  throw new SluiceError("invalid_request", 'The depth of a clone is a whole number above 0, or "full".');
}
