//! Declarations and the types in them. Where part of one is missing, its name is declared all the same, so that its uses are no
//! further problems.

use super::frame::Signature;
use super::{Parser, is_decl};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::Token;
use crate::surface::MAX_TYPE_NESTING;
use crate::surface::ast::{Decl, Expr, ExprId, Name, StorageKind, TypeExpr, TypeKind};
use crate::surface::elaborate::closest;

/// What `fun` is not.
const DEFINITION: &str =
    "`fun` declares a scalar function with its own derivatives; one that is made of others is `def f(x : real) = ..`";

impl Parser<'_> {
    /// A name and behind it another, where the first could be a declaration: `parm x`. What was read as the body is none.
    pub(super) fn misspelt_declaration(&mut self) -> Option<Token> {
        let body = self.ast.body?;
        let Expr::Name(word) = &self.ast.exprs[body] else { return None };
        if foreign::word(word).is_some() || self.token() != Token::Name || self.current.starts_line || self.skipped {
            return None;
        }
        let keywords = [
            ("param", Token::Param),
            ("rel", Token::Rel),
            ("map", Token::Map),
            ("assume", Token::Assume),
            ("def", Token::Def),
            ("fun", Token::Fun),
        ];
        let longer = keywords.iter().rev().find(|(keyword, _)| word.starts_with(keyword));
        let close = || closest(word, keywords.iter().map(|(keyword, _)| *keyword));
        let (keyword, token) = match longer {
            Some(found) => *found,
            None => close().and_then(|close| keywords.into_iter().find(|(keyword, _)| *keyword == close))?,
        };
        let span = self.ast.spans.get(body).copied().unwrap_or_default();
        let message = format!("expected a declaration or an expression, found the name `{word}`");
        let diagnostic = Diagnostic::new("unknown-declaration", span, message);
        self.push_diagnostic(diagnostic.help(format!("did you mean `{keyword}`?")));
        Some(token)
    }

    /// `import "lib.iv"`
    pub(super) fn import(&mut self) -> bool {
        let word = self.current;
        let mut lexer = self.lexer.clone();
        if word.token != Token::Name || lexer.next(&mut Vec::new()).token != Token::Text {
            return false;
        }
        self.advance();
        let span = self.advance().span;
        let text = self.text.get(span.range()).unwrap_or("").trim_matches('"').to_owned();
        if self.ast.body.is_some() {
            let message = "expected the end of the text behind the program's body, found an `import`";
            self.push_diagnostic(
                Diagnostic::new("misplaced-declaration", span, message)
                    .help("imports and declarations come before the body"),
            );
        }
        self.ast.imports.push(Name { text, span });
        true
    }

    /// Whether a size is declared here: `size` is no keyword, and begins a declaration where a name stands behind it.
    pub(super) fn begins_size(&self) -> bool {
        if self.token() != Token::Name || self.text.get(self.current.span.range()) != Some("size") {
            return false;
        }
        let behind = self.lexer.clone().next(&mut Vec::new());
        behind.token == Token::Name && !behind.starts_line
    }

    /// `size h = n // 2`, and `size n, m` of several that no shape gives.
    fn size(&mut self) -> Option<Decl> {
        let names = self.names("the name of a size")?;
        if names.len() > 1 && self.token() == Token::Equal {
            let message = "expected another declaration behind several sizes, found `=`";
            let help = "a size that follows from others has a declaration of its own: `size h = n // 2`";
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        }
        let value = self.eat(Token::Equal).map(|_| self.expression(&[]).id);
        self.each(names, |name| Decl::Size { name, value })
    }

    /// `x, y`
    fn names(&mut self, what: &str) -> Option<Vec<Name>> {
        let mut names = vec![self.name(what)?];
        while self.eat(Token::Comma).is_some() {
            names.extend(self.name(what));
        }
        Some(names)
    }

    /// A declaration of each of several names: all but the last are added.
    fn each(&mut self, names: Vec<Name>, declare: impl FnMut(Name) -> Decl) -> Option<Decl> {
        let mut decls: Vec<Decl> = names.into_iter().map(declare).collect();
        let last = decls.pop();
        decls.iter().for_each(|decl| self.know_declared(decl));
        self.ast.decls.extend(decls);
        last
    }

    pub(super) fn decl(&mut self) {
        let (is_type, is_constant) = (self.at_word("type"), self.at_word("const"));
        let keyword = self.advance().token;
        match (is_type, is_constant) {
            (true, _) => self.decl_with(Parser::type_decl),
            (_, true) => self.decl_with(Parser::def),
            _ => self.decl_of(keyword),
        }
    }

    /// What stands behind the keyword of a declaration.
    pub(super) fn decl_of(&mut self, keyword: Token) {
        self.decl_with(|parser| match keyword {
            Token::Param => parser.param(),
            Token::Rel => parser.relation(),
            Token::Map => parser.map(),
            Token::Assume => {
                let from = parser.ast.exprs.len();
                let pred = parser.expression(&[]).id;
                parser.know_sizes(from);
                Some(Decl::Assume { pred })
            }
            Token::Def => parser.def(),
            Token::Name => parser.size(),
            _ => parser.fun(),
        });
    }

    fn decl_with(&mut self, read: impl FnOnce(&mut Self) -> Option<Decl>) {
        let reported = self.diagnostics.len();
        self.indent = Some(self.current.indent);
        let decl = read(self);
        self.indent = None;
        if let Some(decl) = decl {
            self.know_declared(&decl);
            self.ast.decls.push(decl);
        }
        if self.diagnostics.len() > reported && self.reported_at == Some(self.current.span.start) {
            // The token at fault is still there: go on with the next line.
            while !self.current.starts_line
                && !is_decl(self.token())
                && !matches!(self.token(), Token::End | Token::Let | Token::Semicolon)
            {
                self.advance();
            }
        }
    }

    /// `x : T`, `x, y : T` of several, and `x : T, y : U`.
    fn param(&mut self) -> Option<Decl> {
        let mut last = self.params_of_type()?;
        while self.token() == Token::Comma && !self.current.starts_line {
            self.advance();
            let next = self.params_of_type()?;
            let before = std::mem::replace(&mut last, next);
            self.know_declared(&before);
            self.ast.decls.push(before);
        }
        Some(last)
    }

    /// `x, y : T`
    fn params_of_type(&mut self) -> Option<Decl> {
        let names = self.names("the name of a parameter")?;
        if let Some(map) = self.relation_as_type(&names) {
            return self.each(names, map);
        }
        let read = self.param_type();
        let mut params = Vec::with_capacity(names.len());
        for name in names {
            params.push(match read.clone() {
                Some((storage, like, ty)) => match self.typed_param(&name, storage, &ty) {
                    Some(decl) => decl,
                    None => Decl::Param { name, storage, like, ty },
                },
                // The name is declared, so that its uses are no further problems.
                None => Decl::Param { name, storage: StorageKind::Dense, like: None, ty: self.error_type() },
            });
        }
        let last = params.pop();
        params.iter().for_each(|param| self.know_declared(param));
        self.ast.decls.extend(params);
        last
    }

    /// `: csr(A) [n, m] real`
    fn param_type(&mut self) -> Option<(StorageKind, Option<Name>, TypeExpr)> {
        let starts_type =
            matches!(self.token(), Token::Real | Token::LeftBracket | Token::LeftParen | Token::Format(_));
        let colon = self.eat(Token::Colon).is_some();
        if !colon {
            let message = format!("expected `:` and a type behind the name of a parameter, found {}", self.found());
            let diagnostic = Diagnostic::new("unexpected-token", self.current.span, message);
            let help = "a parameter has a type, as in `param x : real` and `param x : [n] real`";
            self.report(diagnostic.help(help));
        }
        if !colon && (!starts_type || self.current.starts_line) {
            return None;
        }
        let storage = match self.token() {
            Token::Format(format) => {
                self.advance();
                StorageKind::Sparse(format)
            }
            _ => StorageKind::Dense,
        };
        let mut like = None;
        if storage != StorageKind::Dense && self.eat(Token::LeftParen).is_some() {
            like = Some(self.name("the sparse parameter whose entries it has")?);
            self.expect(Token::RightParen, "behind the parameter whose entries it has").then_some(())?;
        }
        Some((storage, like, self.ty(0)?))
    }

    /// A placeholder for a type that is missing; it was reported.
    fn error_type(&mut self) -> TypeExpr {
        let leaf = self.error_leaf();
        let real = TypeExpr { kind: TypeKind::Real, span: leaf.span };
        TypeExpr { kind: TypeKind::Tensor(vec![leaf.id], Box::new(real)), span: leaf.span }
    }

    fn relation(&mut self) -> Option<Decl> {
        let names = self.names("the name of a relation")?;
        let colon = self.expect(Token::Colon, "and a shape behind the name of a relation");
        let shape = colon.then(|| self.sizes("a shape such as `[n, m]`")).flatten();
        let shape = shape.unwrap_or_else(|| vec![self.error_leaf().id]);
        self.each(names, |name| Decl::Relation { name, shape: shape.clone() })
    }

    /// `: rel [n, m]` and `: map [m] -> [n]` behind the names of parameters, which is reported and read as the declaration that it means.
    fn relation_as_type(&mut self, names: &[Name]) -> Option<impl FnMut(Name) -> Decl + use<>> {
        let word = self.lexer.clone().next(&mut Vec::new());
        let is_map = word.token == Token::Map;
        if self.token() != Token::Colon || word.starts_line || !matches!(word.token, Token::Rel | Token::Map) {
            return None;
        }
        self.advance();
        let found = self.found();
        let at = self.advance().span;
        let reported = self.diagnostics.len();
        let start = self.current.span;
        let source = self.sizes("a shape such as `[n, m]`").unwrap_or_else(|| vec![self.error_leaf().id]);
        let target = match is_map && self.eat(Token::Arrow).is_some() {
            true => self.sizes("the range of a map's target such as `[c]`").and_then(|sizes| sizes.first().copied()),
            false => None,
        };
        let names: Vec<&str> = names.iter().map(|name| name.text.as_str()).collect();
        let (names, shape) = (names.join(", "), self.in_one_line(start.to(self.last_end)));
        let message = format!("expected a type such as `real`, `[n] real` or `(real, real)`, found {found}");
        if self.diagnostics.len() == reported {
            let word = if is_map { "map" } else { "rel" };
            let help = format!("it is declared by its own word: `{word} {names} : {shape}`");
            self.push_diagnostic(Diagnostic::new("unexpected-token", at, message).help(help));
        }
        let target = target.or_else(|| is_map.then(|| self.error_leaf().id));
        Some(move |name| match target {
            Some(target) => Decl::Map { name, source: source.clone(), target },
            None => Decl::Relation { name, shape: source.clone() },
        })
    }

    fn map(&mut self) -> Option<Decl> {
        let names = self.names("the name of a map")?;
        let (source, target) = self.map_type().unwrap_or_else(|| {
            let leaf = self.error_leaf().id;
            (vec![leaf], leaf)
        });
        self.each(names, |name| Decl::Map { name, source: source.clone(), target })
    }

    /// `: [p] -> [c]`
    fn map_type(&mut self) -> Option<(Vec<ExprId>, ExprId)> {
        self.expect(Token::Colon, "and `[p] -> [c]` behind the name of a map").then_some(())?;
        let source = self.sizes("the ranges of a map's arguments such as `[p]`")?;
        self.expect(Token::Arrow, "and the range of the map's target").then_some(())?;
        let start = self.current.span;
        let targets = self.sizes("the range of a map's target such as `[c]`")?;
        if targets.len() > 1 {
            let span = start.to(self.last_end);
            let message = format!("expected one range for the target of a map, found {}", targets.len());
            self.push_diagnostic(
                Diagnostic::new("unexpected-token", span, message)
                    .help("declare one map for each coordinate of the target, or a relation"),
            );
        }
        Some((source, *targets.first()?))
    }

    fn def(&mut self) -> Option<Decl> {
        let name = self.name("the name of a definition")?;
        if self.token() == Token::Equal {
            return Some(self.constant(name));
        }
        let Some((Signature { params, result }, body)) = self.def_body() else {
            // The name is declared, so that its uses are no further problems.
            let param = (self.no_name(), self.error_type());
            return Some(Decl::Def { name, params: vec![param], result: None, body: self.error_leaf().id });
        };
        Some(Decl::Def { name, params, result, body })
    }

    /// `(a : [n] real, ..) : real = e`
    fn def_body(&mut self) -> Option<(Signature, ExprId)> {
        let known = self.known.len();
        let params = self.typed_parameters()?;
        self.known.extend(params.iter().map(|(name, _)| name.text.clone()));
        let rest = self.def_rest(params);
        // What is known inside is not known behind it.
        self.known.truncate(known);
        rest
    }

    /// `: real = e`, behind parameters.
    fn def_rest(&mut self, params: Vec<(Name, TypeExpr)>) -> Option<(Signature, ExprId)> {
        if self.token() == Token::Colon && self.begins_block() {
            let message = "expected `=` and the body of the definition, found `:`";
            let help = "its body stands behind `=`, and is one expression: `def f(x : real) = x^2`";
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            self.advance();
            if self.at_word("return") {
                self.advance();
            }
            return Some((Signature { params, result: None }, self.expression(&[]).id));
        }
        let signature = self.with_result(params)?;
        self.expect(Token::Equal, "and the body of the definition").then_some(())?;
        Some((signature, self.expression(&[]).id))
    }

    /// Whether the text behind a colon is no type, but a body as in Python: on the next line, or behind `return`.
    fn begins_block(&self) -> bool {
        let next = self.lexer.clone().next(&mut Vec::new());
        let is_type = matches!(next.token, Token::Real | Token::LeftBracket | Token::LeftParen | Token::Name);
        next.starts_line || !is_type || self.text.get(next.span.range()) == Some("return")
    }

    fn fun(&mut self) -> Option<Decl> {
        let name = self.name("the name of a scalar function")?;
        let Some((params, value, partials)) = self.fun_body(&name) else {
            // The name is declared, so that its uses are no further problems.
            let value = self.error_leaf().id;
            return Some(Decl::Fun { name, params: Vec::new(), value, partials: Vec::new() });
        };
        Some(Decl::Fun { name, params, value, partials })
    }

    /// `(a, b) = e with (da, db)`
    fn fun_body(&mut self, name: &Name) -> Option<(Vec<Name>, ExprId, Vec<ExprId>)> {
        let params = self.list("arguments such as `(a, b)`", |parser| {
            let name = parser.name("the name of an argument")?;
            if parser.token() == Token::Colon {
                let message = "expected `,` or `)` behind the name of an argument, found `:`";
                parser.report(Diagnostic::new("unexpected-token", parser.current.span, message).help(DEFINITION));
                return None;
            }
            Some(name)
        })?;
        self.expect(Token::Equal, "and the value of the function").then_some(())?;
        let value = self.expression(&[Token::With]).id;
        if self.token() != Token::With {
            let message =
                format!("expected `with` and one partial derivative for each argument, found {}", self.found());
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(DEFINITION));
            return None;
        }
        self.advance();
        let partials = self.list("partial derivatives such as `(da, db)`", |parser| {
            Some(parser.expression(&[Token::Comma, Token::RightParen]).id)
        })?;
        if partials.len() != params.len() {
            let message = format!(
                "expected {} partial derivatives, one for each argument, found {}",
                params.len(),
                partials.len()
            );
            self.push_diagnostic(Diagnostic::new("partials-count", name.span, message));
        }
        Some((params, value, partials))
    }

    /// `( item , .. )`.
    pub(super) fn list<T>(&mut self, what: &str, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let open = self.current.span;
        if self.eat(Token::LeftParen).is_none() {
            self.unexpected(what);
            return None;
        }
        let mut items = Vec::new();
        if self.eat(Token::RightParen).is_some() {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(Token::Comma).is_none() {
                self.close(open, Token::RightParen)?;
                return Some(items);
            }
        }
    }

    /// `[ size , .. ]`.
    fn sizes(&mut self, what: &str) -> Option<Vec<ExprId>> {
        let open = self.current.span;
        if self.eat(Token::LeftBracket).is_none() {
            self.unexpected(what);
            return None;
        }
        let mut sizes = Vec::new();
        loop {
            let from = self.ast.exprs.len();
            sizes.push(self.expression(&[Token::Comma, Token::RightBracket]).id);
            self.know_sizes(from);
            if self.eat(Token::Comma).is_none() {
                // A missing bracket in front of a type is the only mistake here: read on as if it stood there.
                if self.close(open, Token::RightBracket).is_none() && !matches!(self.token(), Token::Real) {
                    return None;
                }
                return Some(sizes);
            }
        }
    }

    /// `real[n]`: it is reported, and read as the tensor that it means.
    fn sizes_behind(&mut self, start: Span) -> Option<TypeExpr> {
        if self.token() != Token::LeftBracket || self.current.span.start != start.end {
            return None;
        }
        let open = self.current.span;
        let sizes = self.sizes("a shape")?;
        let span = open.to(self.last_end);
        let shape = self.in_one_line(span);
        let message = format!("expected the end of the type, found the sizes `{shape}`");
        let help = format!("sizes stand in front: `{shape} real`");
        self.push_diagnostic(Diagnostic::new("misplaced-sizes", span, message).help(help));
        let real = TypeExpr { kind: TypeKind::Real, span: start };
        Some(TypeExpr { kind: TypeKind::Tensor(sizes, Box::new(real)), span: start.to(span) })
    }

    /// Behind sizes no type stands, as in `param x : [n]`: it is reported, and read as numbers.
    fn missing_element(&mut self, start: Span) -> Option<TypeExpr> {
        let token = self.token();
        let is_type = matches!(token, Token::Real | Token::LeftBracket | Token::LeftParen | Token::Format(_));
        let ends = self.current.starts_line
            || is_decl(token)
            || matches!(token, Token::Comma | Token::RightParen | Token::Equal | Token::Semicolon);
        if is_type || !ends {
            return None;
        }
        let span = start.to(self.last_end);
        let sizes = self.in_one_line(span);
        let message = format!("expected the type of the elements behind `{sizes}`, found {}", self.found());
        let help = format!("a tensor of numbers is `{sizes} real`");
        self.push_diagnostic(Diagnostic::new("missing-type", span, message).help(help));
        Some(TypeExpr { kind: TypeKind::Real, span })
    }

    /// A type; `depth` types are around it.
    pub(super) fn ty(&mut self, depth: usize) -> Option<TypeExpr> {
        if self.is_too_deep(depth) {
            return None;
        }
        let start = self.current.span;
        let in_parentheses = self.token() == Token::LeftParen;
        let types = match in_parentheses {
            true => self.types(depth)?,
            false => vec![self.plain_type(depth)?],
        };
        if self.eat(Token::Arrow).is_some() {
            let result = self.ty(depth + 1)?;
            let span = start.to(result.span);
            return Some(TypeExpr { kind: TypeKind::Function(types, Box::new(result)), span });
        }
        Some(if in_parentheses { pair_of(types, start.to(self.last_end)) } else { types.into_iter().next()? })
    }

    /// `( type , .. )`, at least one.
    pub(super) fn types(&mut self, depth: usize) -> Option<Vec<TypeExpr>> {
        let start = self.current.span;
        let mut nested = depth;
        let items = self.list("a type", |parser| {
            nested += 1;
            parser.ty(nested)
        })?;
        if items.is_empty() {
            let message = "expected a type in these parentheses, found none";
            self.push_diagnostic(Diagnostic::new("unexpected-token", start.to(self.last_end), message));
            return None;
        }
        Some(items)
    }

    /// Whether this many types are too many around another, which is reported.
    fn is_too_deep(&mut self, depth: usize) -> bool {
        let deep = depth >= MAX_TYPE_NESTING;
        if deep {
            let message = format!("expected a type that nests at most {MAX_TYPE_NESTING} deep, found a deeper one");
            self.report(Diagnostic::new("too-deep", self.current.span, message));
        }
        deep
    }

    /// A type that is no function.
    pub(super) fn plain_type(&mut self, depth: usize) -> Option<TypeExpr> {
        if self.is_too_deep(depth) {
            return None;
        }
        let start = self.current.span;
        match self.token() {
            Token::Real => {
                self.advance();
                Some(self.sizes_behind(start).unwrap_or(TypeExpr { kind: TypeKind::Real, span: start }))
            }
            Token::Format(_) => {
                let message = format!("expected the type of the elements, found {}", self.found());
                let format = self.text.get(start.range()).unwrap_or("");
                let help =
                    format!("the format of a parameter stands in front of its sizes: `param A : {format} [m, n] real`");
                self.report(Diagnostic::new("unexpected-token", start, message).help(help));
                self.advance();
                self.plain_type(depth + 1)
            }
            Token::LeftBracket => {
                let sizes = self.sizes("a shape")?;
                let item = match self.missing_element(start) {
                    Some(real) => real,
                    None => self.plain_type(depth + 1)?,
                };
                let span = start.to(item.span);
                Some(TypeExpr { kind: TypeKind::Tensor(sizes, Box::new(item)), span })
            }
            Token::LeftParen => {
                let types = self.types(depth)?;
                Some(pair_of(types, start.to(self.last_end)))
            }
            Token::Name
                if self.at_word("index") || self.sum_type(self.text.get(start.range()).unwrap_or("")).is_some() =>
            {
                match self.named_type() {
                    Some(ty) => Some(ty),
                    None => {
                        self.unexpected("a size behind `index`, as in `index n`");
                        None
                    }
                }
            }
            token => {
                let expected = "expected a type such as `real`, `[n] real` or `(real, real)`";
                let message = format!("{expected}, found {}", self.found());
                let diagnostic = Diagnostic::new("unexpected-token", start, message);
                let named = self.text.get(start.range()).filter(|_| token == Token::Name);
                let behind = self.lexer.clone().next(&mut Vec::new()).token;
                self.report(match (named.and_then(foreign::type_name), named) {
                    (Some(help), _) => diagnostic.help(help),
                    (None, Some(size)) if behind == Token::Real => {
                        diagnostic.help(format!("sizes stand in brackets: `[{size}] real`"))
                    }
                    _ => diagnostic,
                });
                None
            }
        }
    }
}

/// `(a, (b, c))` of several types, or the one there is.
pub(super) fn pair_of(mut types: Vec<TypeExpr>, span: Span) -> TypeExpr {
    let last = types.pop().unwrap_or(TypeExpr { kind: TypeKind::Real, span });
    let ty = types.into_iter().rev().fold(last, |second, first| {
        let span = first.span.to(second.span);
        TypeExpr { kind: TypeKind::Pair(Box::new(first), Box::new(second)), span }
    });
    TypeExpr { span, ..ty }
}
