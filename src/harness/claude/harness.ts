import type { Harness } from "../port.ts";
import { own } from "../transcript.ts";
import { decode } from "./decode.ts";
import { encode, greet, toCommand } from "./encode.ts";
import { detect, launch, SKILLS_FOLDER } from "./launch.ts";
import { planVerdict } from "./plan-mode.ts";
import { cloudOf, lead, lendLogin, sessionKeys, toModelHosts } from "./provider.ts";
import { type ClaudeState, initialState } from "./state.ts";

/** Claude Code, by its stream-json with the control protocol. */
export const claude: Harness<ClaudeState> = {
  id: "claude",
  title: "Claude Code",
  skillsFolder: SKILLS_FOLDER,
  memoryFolders: (workspace) => [`.claude/projects/${workspace.replaceAll(/[^a-zA-Z0-9]/g, "-")}`],
  takesInstructions: true,
  bridgesBuiltins: true,
  choices: {
    modes: ["default", "plan"],
    models: ["default", "opus", "sonnet", "haiku"],
    variants: ["low", "medium", "high", "xhigh", "max"],
  },
  credentials: [
    { env: "ANTHROPIC_API_KEY" },
    { env: "ANTHROPIC_AUTH_TOKEN" },
    { env: "CLAUDE_CODE_OAUTH_TOKEN" },
    { file: ".claude/.credentials.json", lend: lendLogin },
  ],
  // A session brings its cloud credentials itself.
  credentialsFor: ({ env }) => (cloudOf(env ?? {}) === undefined ? (claude.credentials ?? []) : []),
  sessionKeys,
  addresses: ["ANTHROPIC_BASE_URL"],
  lead,
  detect,
  check: ({ env }) => void toModelHosts(env ?? {}),
  launch,
  initial: ({ idPrefix, spec }) => ({
    ...initialState(idPrefix),
    ...(spec.tools?.rules === undefined ? {} : { rules: spec.tools.rules }),
    ...planVerdict(spec),
  }),
  greet,
  decode,
  encode,
  parentOf: ({ agents = {} }, agent) => own(agents, agent),
  overhear: toCommand,
  lacks: [],
};
