import { z } from "zod";
import { deletedOf, listOf } from "../../../dialects/anthropic/answers/agents.ts";
import {
  File,
  FileForm,
  FileList,
  Skill,
  SkillForm,
  SkillVersion,
} from "../../../dialects/anthropic/answers/documents.ts";
import { defineOperations, json } from "../../operation.ts";
import { PREFIX } from "../dialect.ts";
import * as params from "../query.ts";
import { byScope } from "../../nodes/owner-rules.ts";

// The SDK sends no beta header for files and skills.

const FILES = `${PREFIX}/files`;
const files = { tag: "anthropic: files" } as const;

export const fileOperations = defineOperations({
  anthropicUploadFile: {
    ...files,
    method: "POST",
    path: FILES,
    scope: "control",
    summary: "Uploads a file",
    body: { kind: "bytes", mime: "multipart/form-data", schema: FileForm },
    answer: json("The file", File),
    errors: ["too_large"],
  },
  anthropicListFiles: {
    ...files,
    method: "GET",
    path: FILES,
    scope: "read",
    owner: byScope,
    summary: "The files, newest first; with scope_id those of a session, its outputs included",
    query: z.object({
      ...params.ListQuery.shape,
      ids: params.listOf(z.string()),
      scope_id: params.text,
      after_id: params.text,
      before_id: params.text,
    }),
    answer: json("A page of files", FileList),
    errors: ["not_found", "invalid_cursor"],
  },
  anthropicGetFile: {
    ...files,
    method: "GET",
    path: `${FILES}/{id}`,
    scope: "read",
    summary: "A file without its content",
    answer: json("The file", File),
    errors: ["not_found"],
  },
  anthropicGetFileContent: {
    ...files,
    method: "GET",
    path: `${FILES}/{id}/content`,
    scope: "read",
    summary: "The content of a file",
    answer: { status: 200, description: "The bytes", mime: "*/*" },
    errors: ["not_found", "file_not_found"],
  },
  anthropicDeleteFile: {
    ...files,
    method: "DELETE",
    path: `${FILES}/{id}`,
    scope: "control",
    summary: "Removes a file",
    answer: json("The removed file", deletedOf("file_deleted")),
    errors: ["not_found"],
  },
});

const SKILLS = `${PREFIX}/skills`;
const skills = { tag: "anthropic: skills" } as const;

export const skillOperations = defineOperations({
  anthropicCreateSkill: {
    ...skills,
    method: "POST",
    path: SKILLS,
    scope: "control",
    summary: "Creates a skill from the files of a folder with a SKILL.md",
    body: { kind: "bytes", mime: "multipart/form-data", schema: SkillForm },
    answer: json("The skill", Skill),
    errors: ["too_large"],
  },
  anthropicListSkills: {
    ...skills,
    method: "GET",
    path: SKILLS,
    scope: "read",
    summary: "The skills, newest first",
    query: z.object({ ...params.ListQuery.shape, source: params.text }),
    answer: json("A page of skills", listOf(Skill)),
    errors: ["invalid_cursor"],
  },
  anthropicGetSkill: {
    ...skills,
    method: "GET",
    path: `${SKILLS}/{id}`,
    scope: "read",
    summary: "A skill",
    answer: json("The skill", Skill),
    errors: ["not_found"],
  },
  anthropicDeleteSkill: {
    ...skills,
    method: "DELETE",
    path: `${SKILLS}/{id}`,
    scope: "control",
    summary: "Removes a skill with its versions",
    answer: json("The removed skill", deletedOf("skill_deleted")),
    errors: ["not_found"],
  },
  anthropicCreateSkillVersion: {
    ...skills,
    method: "POST",
    path: `${SKILLS}/{id}/versions`,
    scope: "control",
    summary: "Adds a version to a skill",
    body: { kind: "bytes", mime: "multipart/form-data", schema: SkillForm },
    answer: json("The version", SkillVersion),
    errors: ["not_found", "too_large"],
  },
  anthropicListSkillVersions: {
    ...skills,
    method: "GET",
    path: `${SKILLS}/{id}/versions`,
    scope: "read",
    summary: "The versions of a skill, newest first",
    query: params.ListQuery,
    answer: json("A page of versions", listOf(SkillVersion)),
    errors: ["not_found", "invalid_cursor"],
  },
  anthropicGetSkillVersion: {
    ...skills,
    method: "GET",
    path: `${SKILLS}/{id}/versions/{version}`,
    scope: "read",
    summary: "A version of a skill, by its id or as `latest`",
    answer: json("The version", SkillVersion),
    errors: ["not_found"],
  },
  anthropicGetSkillContent: {
    ...skills,
    method: "GET",
    path: `${SKILLS}/{id}/versions/{version}/content`,
    scope: "read",
    summary: "The files of a skill's version",
    answer: { status: 200, description: "A zip archive", mime: "application/zip" },
    errors: ["not_found"],
  },
  anthropicDeleteSkillVersion: {
    ...skills,
    method: "DELETE",
    path: `${SKILLS}/{id}/versions/{version}`,
    scope: "control",
    summary: "Removes a version of a skill that has another one",
    answer: json("The removed version", deletedOf("skill_version_deleted")),
    errors: ["not_found"],
  },
});
