import type { SessionSpec } from "../../contract/index.ts";
import { speakAcp } from "../acp/harness.ts";
import type { AcpState } from "../acp/state.ts";
import type { Harness } from "../port.ts";
import { geminiDialect } from "./dialect.ts";
import {
  detect,
  isInSettings,
  launch,
  lead,
  lendAccount,
  lendLogin,
  modelHosts,
  SKILLS_FOLDER,
} from "./launch.ts";

const acp = speakAcp(geminiDialect);

/** Gemini CLI over ACP (`gemini --acp`). */
export const gemini: Harness<AcpState> = {
  id: "gemini",
  title: "Gemini CLI",
  skillsFolder: SKILLS_FOLDER,
  choices: {
    modes: ["default", "plan"],
    models: [
      "auto",
      "gemini-2.5-pro",
      "gemini-2.5-flash",
      "gemini-3-flash-preview",
      "gemini-3.1-pro-preview",
    ],
    variants: ["low", "medium", "high"],
  },
  credentials: [
    { env: "GEMINI_API_KEY" },
    { env: "GOOGLE_API_KEY" },
    { file: ".gemini/oauth_creds.json", lend: lendLogin },
    { file: ".gemini/google_accounts.json", lend: lendAccount, isCompanion: true },
  ],
  addresses: ["GOOGLE_GEMINI_BASE_URL"],
  lead,
  detect,
  check: ({ env }) => void modelHosts(env ?? {}),
  launch,
  ...acp,
  initial: (context) => withoutConfigured(acp.initial(context), context.spec),
  lacks: ["questions"],
};

/** Leaves out the MCP servers that the settings file defines: a second definition would override the first. */
function withoutConfigured(state: AcpState, { mcp = {} }: SessionSpec): AcpState {
  const { wishes } = state;
  if (!wishes) return state;
  const mcpServers = wishes.mcpServers.filter((asked) => {
    const server = mcp[String(asked["name"])];
    return server === undefined || !isInSettings(server);
  });
  return { ...state, wishes: { ...wishes, mcpServers } };
}
