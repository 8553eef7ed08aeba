// Ranking of the search's results: guides first, then reference, then the reasons and the history of the code. Queries
// such as `archir.export` and `A0401` ask for the reference.
// A result has a score from 2 (part of a word) over 5 (a word) and 15 (a title) to 100 (a phrase of docs/keywords.toml).
var Scorer = {
  score: ([docname, , , , score, , kind]) => {
    const query = new URLSearchParams(location.search).get("q") ?? "";
    if (kind === "object") return score + (/\w[._(]/.test(query) ? 20 : 0);
    if (/^archir\/diagnostics/.test(docname)) return score + (/\bA\d{4}\b/i.test(query) ? 20 : -12);
    if (/^docs\/decisions|^examples\/|^CHANGELOG|^CONTRIBUTING/.test(docname)) return score - 12;
    if (/^docs\/(api\/|operations|library|commands|diagnostics|zoo|imported)/.test(docname)) return score;
    return score + 10;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
